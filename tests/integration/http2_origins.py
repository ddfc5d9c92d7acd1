"""Origins of HTTP/2 beside those of origins.py, in the same network namespace: nghttpd, nghttpx before the web server of
HTTP/1.1, and a gRPC server. And host programs that are run in a sandbox's network."""
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import daemon as daemons

NGHTTPD_PORT, NGHTTPX_PORT, GRPC_PORT = 8443, 9443, 7443
START_SECONDS = 60
FOLDER = pathlib.Path(__file__).parent


def _listens(namespace, port):
    listening = subprocess.run(["ip", "netns", "exec", namespace, "ss", "-Hltn", f"sport = :{port}"], stdout=subprocess.PIPE,
                               text=True, check=True).stdout
    return bool(listening.strip())


@contextlib.contextmanager
def _serving(origins, port, words):
    log = tempfile.TemporaryFile()
    process = subprocess.Popen(["ip", "netns", "exec", origins.namespace, *map(str, words)], stdin=subprocess.DEVNULL,
                               stdout=log, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not _listens(origins.namespace, port):
            if process.poll() is not None or time.monotonic() > deadline:
                log.seek(0)
                raise RuntimeError(f"{words[0]} does not start: {log.read().decode(errors='replace')}")
            time.sleep(0.05)  # a port tells nobody that it listens
        yield process
    finally:
        process.terminate()
        process.wait()


def serving_nghttpd(origins):
    key, leaf, root = (origins.directory / name for name in ("key.pem", "leaf.pem", "htdocs"))
    root.mkdir(exist_ok=True)
    (root / "small").write_text("of nghttpd\n")
    with (root / "large").open("wb") as file:
        file.truncate(64 << 20)
    return _serving(origins, NGHTTPD_PORT,
                    ["nghttpd", "-d", root, "--echo-upload", f"--address={origins.address}", NGHTTPD_PORT, key, leaf])


@contextlib.contextmanager
def serving(origins):
    """All three."""
    key, leaf = (origins.directory / name for name in ("key.pem", "leaf.pem"))
    nghttpx = ["nghttpx", f"-f{origins.address},{NGHTTPX_PORT}", f"-b{origins.address},8080", "--conf=/dev/null",
               "--host-rewrite", "--errorlog-file=/dev/stderr", "--no-ocsp", "--user=root", key, leaf]
    grpc = [sys.executable, FOLDER / "grpc_origin.py", f"{origins.address}:{GRPC_PORT}", key, leaf]
    with serving_nghttpd(origins), _serving(origins, NGHTTPX_PORT, nghttpx), _serving(origins, GRPC_PORT, grpc):
        yield


def in_sandbox_network(daemon, api, session, words, seconds=120, **environment):
    """(output, exit code) of a program of the host in the network of the daemon's only sandbox, knowing its proxy."""
    pid = next(iter(daemons.processes_of(daemon.uids)))
    proxy = api.output(session, "echo $https_proxy").strip()
    done = subprocess.run(["nsenter", "-t", str(pid), "-n", *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=seconds, check=False,
                          env={"PATH": os.environ["PATH"], "https_proxy": proxy, **environment})
    return done.stdout, done.returncode
