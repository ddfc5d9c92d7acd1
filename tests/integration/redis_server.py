"""A real redis-server on a loopback port of its own, and a client that plays another daemon."""
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import registry

START_SECONDS = 60
LOCK, ACTIVITY, LEADER = "daiv-sandbox:session-lock:", "daiv-sandbox:session-activity:", "daiv-sandbox:reaper-leader"
# What the Docker variant's locks do: nobody but who has the token frees a lock.
COMPARE_AND_DELETE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"


class RedisServer:
    """start() and kill() may alternate; nothing is kept on disk. LINES are lines of redis.conf."""

    def __init__(self, *lines, tls=None):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="daiv-redis-"))
        self.port = registry.free_port()
        ports = [f"port {self.port}"]
        if tls:
            ports = ["port 0", f"tls-port {self.port}", f"tls-cert-file {tls.certificate}", f"tls-key-file {tls.key}",
                     f"tls-ca-cert-file {tls.ca}", "tls-auth-clients no"]
        self.configuration = self.directory / "redis.conf"
        self.configuration.write_text("\n".join(["bind 127.0.0.1", *ports, f"dir {self.directory}", 'save ""', "appendonly no",
                                                 "daemonize no", *lines]) + "\n")
        self.process = None
        self.options = ["--tls", "--cacert", str(tls.ca)] if tls else []
        self.login = {}

    def start(self):
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(["redis-server", str(self.configuration)], stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
                return self
            except OSError:
                time.sleep(0.05)  # nothing to wait on: a port that begins to listen tells nobody
        log = (self.directory / "log").read_text(errors="replace")
        raise RuntimeError(f"redis-server does not answer:\n{log}")

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()
        self.process = None

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)

    def cli(self, *words):
        """The answer of redis-cli, one line a value; "" for none."""
        answer = subprocess.run(["redis-cli", "-p", str(self.port), *self.options, *map(str, words)], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, check=True, timeout=60, env={**os.environ, **self.login})
        return answer.stdout.rstrip("\n")

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


class Certificates:
    """A CA and a certificate for 127.0.0.1 that it signed."""

    def __init__(self, directory, address="127.0.0.1"):
        self.ca, self.ca_key = directory / "ca.pem", directory / "ca.key"
        self.certificate, self.key = directory / "redis.pem", directory / "redis.key"
        self._openssl("req", "-x509", *self._new_key(self.ca_key), "-out", self.ca, "-days", "2", "-subj", "/CN=redis test CA",
                      "-addext", "keyUsage=critical,keyCertSign")
        request, extensions = directory / "redis.csr", directory / "redis.ext"
        self._openssl("req", *self._new_key(self.key), "-out", request, "-subj", "/CN=redis")
        extensions.write_text(f"subjectAltName=IP:{address}\nextendedKeyUsage=serverAuth\n")
        self._openssl("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self.ca_key, "-CAcreateserial", "-days", "2",
                      "-extfile", extensions, "-out", self.certificate)
        self.ca.chmod(0o644)

    @staticmethod
    def _new_key(path):
        return "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", path

    @staticmethod
    def _openssl(*words):
        subprocess.run(["openssl", *map(str, words)], check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
