"""A real registry (Debian's docker-registry) on a loopback port of its own."""
import http.client
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time

START_SECONDS = 15


def free_port():
    """A port that the kernel chose. It is free until someone else is given it, which on loopback is not soon."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Registry:
    """docker-registry with its own storage; stops and removes everything at the end of a `with`."""

    def __init__(self, htpasswd=None):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="daiv-registry-"))
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        auth = f"auth:\n  htpasswd:\n    realm: test\n    path: {htpasswd}\n" if htpasswd else ""
        config = self.directory / "config.yml"
        config.write_text("version: 0.1\nlog: {level: warn}\n"
                          f"storage:\n  filesystem: {{rootdirectory: {self.directory}/data}}\n  delete: {{enabled: true}}\n"
                          f"http: {{addr: '{self.address}'}}\n{auth}")
        with (self.directory / "log").open("wb") as log:
            self.process = subprocess.Popen(["docker-registry", "serve", str(config)], stdout=log, stderr=log,
                                            env={**os.environ, "OTEL_TRACES_EXPORTER": "none"})
        self._wait()

    def _wait(self):
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                connection = http.client.HTTPConnection(self.address, timeout=2)
                connection.request("GET", "/v2/")
                connection.getresponse().read()
                return
            except OSError:
                time.sleep(0.02)  # nothing to wait on: the registry tells nobody that it listens
        log = (self.directory / "log").read_text(errors="replace")
        self.close()
        raise RuntimeError("docker-registry does not answer:\n" + log)

    def close(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
