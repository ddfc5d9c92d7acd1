"""What a client and an operator see of a daemon beside its answers to correct requests: limits, documentation, logs, settings."""
import base64
import concurrent.futures
import html.parser
import http.client
import json
import pathlib
import re
import resource
import subprocess
import threading

import pytest

import daemon as daemons

JSON = {"Content-Type": "application/json"}
MIB = 1 << 20


@pytest.fixture(scope="module")
def logging(build):
    """A daemon that logs all it ever does, as JSON."""
    with daemons.Daemon(build, {"DAIV_SANDBOX_LOG_LEVEL": "DEBUG", "DAIV_SANDBOX_LOG_FORMAT": "json",
                                "DAIV_SANDBOX_ENVIRONMENT": "local"}) as running:
        yield running


def answer(port, method, path, body=None, headers=None):
    """(status, headers in lower case, body) of one request on a connection of its own, as it is."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path, body, {"X-API-Key": daemons.KEY, **(headers or {})})
    reply = connection.getresponse()
    data = reply.read()
    connection.close()
    return reply.status, {name.lower(): value for name, value in reply.getheaders()}, data


# --- limits -----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("method, path, limit", [
    ("POST", "/session/", MIB), ("PUT", "/session/none/egress/", MIB), ("POST", "/session/none/fs/read", MIB),
    ("POST", "/session/none/", 64 * MIB), ("POST", "/session/none/fs/write", 64 * MIB),
    ("POST", "/session/none/fs/edit", 64 * MIB)])
def test_a_body_above_its_limit_is_a_413(logging, method, path, limit):
    # Refused for what is announced: none of it has to be sent.
    status, _, body = answer(logging.port, method, path, iter(()), {**JSON, "Content-Length": str(limit + 1)})
    assert (status, json.loads(body)) == (413, {"detail": "Request body too large"})


def faulted_pages(pid):
    """How many pages the thread that serves all clients was given so far (proc(5), minflt)."""
    return int(pathlib.Path(f"/proc/{pid}/task/{pid}/stat").read_text().rpartition(")")[2].split()[7])


@pytest.mark.speed
def test_others_are_served_while_a_large_file_is_written(daemon, api, start, busybox):
    """Every thread that works on the file touches all of its pages: how many the one that serves clients touches tells how
    much of the work is its own. It is the same number on a busy machine."""
    session, other = start(busybox), start(busybox)
    content = base64.b64encode(b"x" * (30 * MIB)).decode()
    done = threading.Event()

    def use_other():
        mine, served = daemon.api(), 0
        while not done.is_set():
            assert mine.fs(other, "ls", path="/workspace")["error"] is None
            served += 1
        return served

    with concurrent.futures.ThreadPoolExecutor() as pool:
        using = pool.submit(use_other)
        before = faulted_pages(daemon.process.pid)
        try:
            assert api.fs(session, "write", path="/workspace/tmp/large", content=content) == {"ok": True, "error": None}
        finally:
            done.set()
        pages = faulted_pages(daemon.process.pid) - before
        assert using.result() > 10
    # To receive the body and to send the content takes less than twice the body's pages; to decode it all, five times.
    assert pages < 3 * len(content) / resource.getpagesize()
    assert api.output(session, "wc -c < /workspace/tmp/large").strip() == str(30 * MIB)


# --- documentation ----------------------------------------------------------------------------------------------------

class Page(html.parser.HTMLParser):
    """What a page refers to, by its attributes."""

    def __init__(self, text):
        super().__init__()
        self.references, self.elements = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.add(tag)
        self.references += [value for name, value in attributes if name in ("src", "href", "action", "data", "srcset", "poster")]


@pytest.mark.parametrize("prefix", ["", "/api/v1"])
def test_the_documentation_needs_no_other_host(logging, prefix):
    status, headers, body = answer(logging.port, "GET", f"{prefix}/docs")
    text = body.decode()
    assert status == 200 and headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in headers["content-security-policy"] and "connect-src 'self'" in headers["content-security-policy"]
    assert not re.search(r"https?:|[\"'(]//|@import|url\(|\bimport\b", text)
    page = Page(text)
    assert {"script", "style", "input"} <= page.elements
    # The page lies beside what it loads, wherever it is served.
    loaded = page.references + [prefix + path for path in re.findall(r'fetch\(base \+ "([^"]+)"\)', text)]
    assert f"{prefix}/openapi.json" in loaded
    for reference in loaded:
        assert reference.startswith("/"), reference
        assert answer(logging.port, "GET", reference)[0] == 200, reference
    document = json.loads(answer(logging.port, "GET", f"{prefix}/openapi.json")[2])
    assert document["info"]["description"] and document["components"]["schemas"]
    assert "/session/{session_id}/fs/{operation}" in document["paths"] or "/session/{session_id}/fs/ls" in document["paths"]


def test_other_methods_than_get_are_told_so(logging):
    for path in ("/openapi.json", "/docs", "/api/v1/openapi.json", "/api/v1/docs"):
        status, headers, body = answer(logging.port, "POST", path)
        assert (status, headers["allow"], json.loads(body)) == (405, "GET, HEAD", {"detail": "Method Not Allowed"})
        status, headers, body = answer(logging.port, "HEAD", path)
        assert status == 200 and int(headers["content-length"]) > 1000 and body == b""


# --- logs -------------------------------------------------------------------------------------------------------------

SECRET = "hush-hush-4711"


def send_secrets(port):
    """Requests of every outcome with the secret in every place that a client can put one. Gives how many."""
    secrets = {"policy": {"default": "allow"}, "secrets": {"t": {"header": "X", "value": SECRET}}}
    bodies = [
        ("POST", "/session/", {"base_image": "x", "egress": secrets}), ("POST", "/session/", {"egress": secrets}),
        ("POST", "/session/", {"base_image": "x", "egress": [{"value": SECRET}]}),
        ("POST", "/session/", {"base_image": "127.0.0.1:1/x", "environment": {"A": SECRET}}),
        ("PUT", "/session/none/egress/", secrets), ("PUT", "/session/none/egress/", [SECRET]),
        ("POST", "/session/none/", {"commands": [f"echo {SECRET}"]}), ("POST", "/session/none/", {"commands": SECRET}),
        ("POST", "/session/none/fs/write", {"path": "/workspace/x", "content": base64.b64encode(SECRET.encode()).decode()}),
        ("POST", "/session/none/fs/edit", {"path": "/workspace/x", "old": SECRET, "new": SECRET})]
    for method, path, body in bodies:
        _, _, data = answer(port, method, path, json.dumps(body), JSON)
        assert "egress" not in json.dumps(body) and "egress" not in path or SECRET.encode() not in data, data
    _, _, data = answer(port, "PUT", "/session/none/egress/", json.dumps(secrets), {"Content-Type": "text/plain"})
    assert b'"input":"**********"' in data and SECRET.encode() not in data
    answer(port, "POST", "/session/none/", '{"commands":["%s"' % SECRET, JSON)
    answer(port, "DELETE", f"/session/none/?force={SECRET}")
    answer(port, "GET", "/-/version/", headers={"X-API-Key": SECRET, "Authorization": SECRET, "Cookie": SECRET})
    answer(port, "POST", "/session/none/", "{}", {**JSON, "X-API-Key": SECRET})
    return len(bodies) + 5


def test_the_log_has_requests_and_no_secrets(logging):
    before = len(logging.log_text())
    for prefix in ("", "/api/v1"):
        assert answer(logging.port, "GET", f"{prefix}/-/health/")[0] == 200
    sent = send_secrets(logging.port)
    logging.stop()  # all that it has to say is said
    lines = [json.loads(line) for line in logging.log_text()[before:].splitlines()]
    assert all({"time", "level"} <= set(line) for line in lines)
    requests = [line for line in lines if "route" in line and "status" in line]
    assert len(requests) == sent
    for line in requests:
        assert {"request", "method", "route", "session", "status", "duration_ms", "bytes"} <= set(line)
    assert not [line for line in lines if "health" in json.dumps(line)]
    for secret in (SECRET, base64.b64encode(SECRET.encode()).decode(), daemons.KEY):
        assert secret not in logging.log_text()
    logging.start()


# --- settings ---------------------------------------------------------------------------------------------------------

def test_the_log_level_is_kept_and_the_base_path_has_no_slash_at_its_end(logging):
    logging.stop()
    before = len(logging.log_text())
    usual = logging.settings
    logging.settings = {**usual, "DAIV_SANDBOX_LOG_LEVEL": "WARNING", "DAIV_SANDBOX_API_V1_STR": "/sb/"}
    try:
        logging.start()
        for path, status in (("/sb/-/version/", 200), ("/-/version/", 200), ("/api/v1/-/version/", 404), ("/sb/docs", 200)):
            assert answer(logging.port, "GET", path)[0] == status, path
        assert json.loads(answer(logging.port, "GET", "/sb/openapi.json")[2])["servers"] == [{"url": "/sb"}]
        logging.stop()
        assert not re.search(r"route|READY|\"info\"", logging.log_text()[before:]), logging.log_text()[before:]
    finally:
        logging.settings = usual
        logging.stop()
        logging.start()


@pytest.mark.parametrize("key", ["", "   ", None])
def test_without_a_key_nothing_starts(build, key):
    refused = daemons.Daemon(build)
    try:
        if key is None:
            del refused.settings["DAIV_SANDBOX_API_KEY"]
        else:
            refused.settings["DAIV_SANDBOX_API_KEY"] = key
        done = subprocess.run([refused.program, "serve"], env=refused.environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60)
        assert done.returncode != 0 and "DAIV_SANDBOX_API_KEY is required" in done.stderr
    finally:
        refused.remove()
