"""What stands around the API in a real daemon: TLS, the unix socket, Sentry, metrics, the journal."""
import gzip
import http.client
import http.server
import json
import os
import socket
import ssl
import stat
import subprocess
import tempfile
import threading
import time
import zlib

import pytest

import daemon as daemons

WAIT_SECONDS = 20


def wait_for(condition):
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.05)  # what is waited for tells nobody
    raise AssertionError("waited in vain")


def make_pair(directory, name):
    """A self-signed pair at the places that a test daemon reads, replaced as administrators' tools do."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                    "-keyout", f"{directory}/key.new", "-out", f"{directory}/cert.new"], check=True, capture_output=True)
    for part in ("cert", "key"):
        os.chmod(f"{directory}/{part}.new", 0o644)  # the daemon's user reads it; it protects nothing
        os.rename(f"{directory}/{part}.new", f"{directory}/{part}.pem")


def https(port, method="GET", path="/-/version/"):
    """(status, body, subject of the certificate) of one request."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=10)
    connection.request(method, path, headers={"X-API-Key": daemons.KEY})
    reply = connection.getresponse()
    body = reply.read()
    certificate = ssl.DER_cert_to_PEM_cert(connection.sock.getpeercert(True)) if connection.sock else ""
    connection.close()
    return reply.status, body, certificate


class TlsDaemon(daemons.Daemon):
    def wait_until_it_answers(self):
        def answers():
            assert self.process.poll() is None, self.log_text()
            try:
                return https(self.port, path="/-/health/")[0] == 200
            except OSError:
                return False
        wait_for(answers)

    def start(self):
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([self.program, "serve"], env=self.environment, stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL)
        self.wait_until_it_answers()
        return self


@pytest.fixture
def pair():
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        os.chmod(directory, 0o755)
        make_pair(directory, "first")
        yield directory


def tls_settings(directory):
    return {"DAIV_SANDBOX_TLS_CERT_FILE": f"{directory}/cert.pem", "DAIV_SANDBOX_TLS_KEY_FILE": f"{directory}/key.pem"}


def test_tls_is_served_and_reloaded(build, pair):
    with TlsDaemon(build, tls_settings(pair)) as running:
        status, _, first = https(running.port)
        assert status == 200
        with socket.create_connection(("127.0.0.1", running.port), timeout=10) as plain:
            plain.sendall(b"GET /-/health/ HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"HTTP/1.1" not in plain.recv(1000)
        make_pair(pair, "second")
        wait_for(lambda: https(running.port)[2] != first)
        with open(f"{pair}/key.pem", "w") as key:
            key.write("no key")
        wait_for(lambda: "event=tls_reload_failed" in running.log_text())
        assert https(running.port)[0] == 200


def test_a_bad_pair_stops_the_start(build, pair):
    with open(f"{pair}/key.pem", "w") as key:
        key.write("no key")
    refused = daemons.Daemon(build, tls_settings(pair))
    try:
        with pytest.raises(RuntimeError, match="TLS key .*key.pem"):
            refused.start()
    finally:
        refused.remove()


def test_the_unix_socket_is_for_the_group(own_daemon, pair):
    path = f"{pair}/api.sock"  # a folder of root's
    running = own_daemon(DAIV_SANDBOX_UNIX_SOCKET=path)
    state = os.stat(path)
    assert stat.S_ISSOCK(state.st_mode) and stat.S_IMODE(state.st_mode) == 0o660
    assert state.st_uid != 0 and state.st_gid != 0
    for _ in range(2):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            client.sendall(b"GET /-/health/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert client.recv(1000).startswith(b"HTTP/1.1 200")
        running.stop()
        running.start()  # finds the socket that it left


class Sentry(http.server.ThreadingHTTPServer):
    """A receiver of envelopes; keeps (item header, payload) of every item."""

    def __init__(self):
        self.items, self.keys = [], set()
        super().__init__(("127.0.0.1", 0), SentryHandler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def dsn(self):
        return f"http://publickey@127.0.0.1:{self.server_port}/7"

    def of_type(self, kind):
        return [payload for header, payload in list(self.items) if header["type"] == kind]


class SentryHandler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        data = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            data = gzip.decompress(data)
        elif self.headers.get("Content-Encoding") == "deflate":
            data = zlib.decompress(data)
        assert self.path == "/api/7/envelope/"
        self.server.keys.add(self.headers["X-Sentry-Auth"])
        _, _, rest = data.partition(b"\n")
        while rest.strip():
            line, _, rest = rest.partition(b"\n")
            header = json.loads(line)
            self.server.items.append((header, json.loads(rest[:header["length"]])))
            rest = rest[header["length"]:].lstrip(b"\n")
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


@pytest.fixture
def sentry():
    with Sentry() as receiver:
        yield receiver
        receiver.shutdown()


def test_sentry_hears_of_requests_errors_and_logs(build, pair, sentry):
    settings = {"DAIV_SANDBOX_SENTRY_DSN": sentry.dsn, "DAIV_SANDBOX_SENTRY_TRACES_SAMPLE_RATE": "1",
                "DAIV_SANDBOX_SENTRY_ENABLE_LOGS": "true", **tls_settings(pair)}
    with TlsDaemon(build, settings) as running:
        https(running.port)
        transaction = wait_for(lambda: sentry.of_type("transaction"))[0]
        assert transaction["transaction"] == "GET /-/version/" and transaction["environment"] == "production"
        assert transaction["contexts"]["trace"]["data"]["http.response.status_code"] == 200
        with open(f"{pair}/key.pem", "w") as key:
            key.write("no key")
        event = wait_for(lambda: sentry.of_type("event"))[0]
        assert "event=tls_reload_failed" in event["message"]["formatted"]
        running.stop()  # which sends the log lines that were grouped
        bodies = [item["body"] for log in sentry.of_type("log") for item in log["items"]]
        assert any("route=/-/version/" in body for body in bodies)
        assert any("event=stopped" in body for body in bodies)
        assert daemons.KEY not in json.dumps(sentry.items)
        assert all("sentry_key=publickey" in key for key in sentry.keys)
        assert "sentry" not in running.log_text().lower()


def test_a_sentry_that_answers_nothing_holds_up_neither_requests_nor_the_end(own_daemon):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        running = own_daemon(DAIV_SANDBOX_SENTRY_DSN=f"http://k@127.0.0.1:{silent.getsockname()[1]}/1",
                             DAIV_SANDBOX_SENTRY_TRACES_SAMPLE_RATE="1")
        api = running.api()
        for _ in range(50):
            assert api.raw("GET", "/-/version/")[0] == 200
        started = time.monotonic()
        running.stop()
        assert time.monotonic() - started < 10


def test_sentry_is_off_locally_and_a_bad_dsn_stops_the_start(own_daemon, build, sentry):
    running = own_daemon(DAIV_SANDBOX_SENTRY_DSN=sentry.dsn, DAIV_SANDBOX_SENTRY_TRACES_SAMPLE_RATE="1",
                         DAIV_SANDBOX_ENVIRONMENT="local")
    running.api().raw("GET", "/-/version/")
    running.stop()
    assert not sentry.items
    refused = daemons.Daemon(build, {"DAIV_SANDBOX_SENTRY_DSN": "https://nonsense"})
    try:
        with pytest.raises(RuntimeError, match="DAIV_SANDBOX_SENTRY_DSN"):
            refused.start()
    finally:
        refused.remove()


def test_metrics_tell_pulls_and_operations(own_daemon, busybox, registry):
    running = own_daemon()
    api = running.api()
    session = api.create(busybox)
    api.run_one(session, "true")
    with pytest.raises(daemons.Refused):
        api.create(f"{registry.address}/no/such:image")
    api.close(session, force=True)
    metrics = api.raw("GET", "/-/metrics")[1].decode()
    values = dict(line.rsplit(" ", 1) for line in metrics.splitlines() if not line.startswith("#"))
    assert values['daiv_sandbox_image_pulls_total{outcome="ok"}'] == "1"
    assert values['daiv_sandbox_image_pulls_total{outcome="not_found"}'] == "1"
    assert int(values["daiv_sandbox_image_pull_bytes_total"]) > 100_000
    assert values['daiv_sandbox_operations_total{operation="create",outcome="ok"}'] == "1"
    assert values['daiv_sandbox_operations_total{operation="create",outcome="bad_request"}'] == "1"
    assert values['daiv_sandbox_operation_duration_seconds_count{operation="run"}'] == "1"
    assert values['daiv_sandbox_operations_total{operation="remove",outcome="ok"}'] == "1"
