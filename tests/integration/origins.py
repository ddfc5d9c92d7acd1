"""Origins for tests of egress: a network namespace of the test's own with a web server in it, reached over one veth pair.

Names lead there by DAIV_SANDBOX_EGRESS_EXTRA_HOSTS. Addresses are of 198.18.0.0/15, which RFC 2544 keeps for tests; no
packet leaves the machine.
"""
import fcntl
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

NAMES = ["allowed.test", "cred.test", "denied.test", "limited.test", "git.test", "tunnel.test"]
START_SECONDS = 20


def _ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def _openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


class Origins:
    """A web server for NAMES on ports 80 and 443. What it was asked is in requests()."""

    def __init__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="daiv-origins-", dir="/var/tmp"))
        self.directory.chmod(0o755)  # the daemon's user reads the CA
        self.number, self.place = self._take_place()
        self.namespace = f"daivorg{self.number}"
        self.host, self.address = f"198.18.{self.number}.1", f"198.18.{self.number}.2"
        self.log = self.directory / "requests"
        self.ca = self.directory / "ca.pem"
        self.process = None

    @staticmethod
    def _take_place():
        for number in range(10, 250):
            lock = open(f"/run/lock/daiv-test-origins-{number}", "w")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return number, lock
            except BlockingIOError:
                lock.close()
        raise RuntimeError("too many test origins")

    @property
    def settings(self):
        return {"DAIV_SANDBOX_EGRESS_EXTRA_HOSTS": ",".join(f"{name}:{self.address}" for name in NAMES),
                "DAIV_SANDBOX_EGRESS_UPSTREAM_CA_FILE": str(self.ca)}

    def _certificates(self):
        key, request, leaf = (str(self.directory / name) for name in ("key.pem", "request.pem", "leaf.pem"))
        ca_key = str(self.directory / "ca.key")
        _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", ca_key,
                 "-out", str(self.ca), "-days", "2", "-subj", "/CN=origins of a test", "-addext", "keyUsage=critical,keyCertSign")
        _openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", request,
                 "-subj", "/CN=origin")
        extensions = self.directory / "extensions"
        extensions.write_text("subjectAltName=" + ",".join(f"DNS:{name}" for name in NAMES) + "\nextendedKeyUsage=serverAuth\n")
        _openssl("x509", "-req", "-in", request, "-CA", str(self.ca), "-CAkey", ca_key, "-CAcreateserial", "-days", "2",
                 "-extfile", str(extensions), "-out", leaf)
        self.ca.chmod(0o644)

    def _network(self):
        subprocess.run(["ip", "netns", "delete", self.namespace], stderr=subprocess.DEVNULL, check=False)
        _ip("netns", "add", self.namespace)
        link = f"daivo{self.number}"
        _ip("link", "add", link, "type", "veth", "peer", "name", "origin0", "netns", self.namespace)
        _ip("address", "add", f"{self.host}/24", "dev", link)
        _ip("link", "set", link, "up")
        _ip("-n", self.namespace, "address", "add", f"{self.address}/24", "dev", "origin0")
        _ip("-n", self.namespace, "link", "set", "origin0", "up")
        _ip("-n", self.namespace, "link", "set", "lo", "up")

    def _repository(self):
        """repo.git with one commit, which may be pushed to."""
        work, bare = self.directory / "work", self.directory / "git" / "repo.git"
        git = ["git", "-c", "user.name=t", "-c", "user.email=t@t.test", "-c", "init.defaultBranch=main"]
        subprocess.run([*git, "init", "-q", work], check=True)
        (work / "file").write_text("content\n")
        subprocess.run([*git, "-C", work, "add", "."], check=True)
        subprocess.run([*git, "-C", work, "commit", "-q", "-m", "first"], check=True)
        subprocess.run([*git, "clone", "-q", "--bare", work, bare], check=True)
        subprocess.run([*git, "-C", bare, "config", "http.receivepack", "true"], check=True)

    def __enter__(self):
        try:
            self._certificates()
            self._network()
            self._repository()
            self.log.touch()
            self.process = subprocess.Popen(
                ["ip", "netns", "exec", self.namespace, sys.executable, str(pathlib.Path(__file__).parent / "origin_server.py"),
                 self.address, str(self.directory)], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
            if self.process.stdout.readline() != "ready\n":
                raise RuntimeError("the origins do not start")
            return self
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_):
        if self.process:
            self.process.kill()
            self.process.wait()
        subprocess.run(["ip", "netns", "delete", self.namespace], stderr=subprocess.DEVNULL, check=False)
        shutil.rmtree(self.directory, ignore_errors=True)
        self.place.close()

    def requests(self, host=None):
        """What came in so far: dicts of method, path, host and headers (a list of pairs)."""
        found = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [one for one in found if host is None or one["host"] == host]

    def clear(self):
        self.log.write_text("")

    def wait_for(self, count, seconds=10):
        deadline = time.monotonic() + seconds
        while len(self.requests()) < count and time.monotonic() < deadline:
            time.sleep(0.02)  # a file tells nobody that it grew
        return self.requests()
