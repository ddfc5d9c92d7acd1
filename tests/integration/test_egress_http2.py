"""HTTP/2 through the proxy with real peers: curl, h2load, nghttpd, nghttpx, gRPC."""
import json
import pathlib
import re
import sys

import pytest

import daemon as daemons
import http2_origins
import test_egress
from egress_fixtures import SECRET, curl, make_ca, origin_servers, policy, rule
from http2_origins import GRPC_PORT, NGHTTPD_PORT, NGHTTPX_PORT, in_sandbox_network

FOLDER = pathlib.Path(__file__).parent
POLICY = policy(rule("cred.test", inject="token"), rule("limited.test", ["GET"]))
VERSION = ("-o", "/dev/null", "-w", "%{http_version} %{http_code}")

api, box = test_egress.api, test_egress.box


@pytest.fixture(scope="module")
def origins():
    with origin_servers.Origins() as running, http2_origins.serving(running):
        yield running


@pytest.fixture(scope="module")
def egress_daemon(build, origins):
    made = daemons.Daemon(build, {})
    made.settings.update(origins.settings)
    made.settings.update(make_ca(made.build, made.directory))
    with made:
        yield made


def test_curl_speaks_http2_to_an_origin_of_http2(api, box):
    session = box(POLICY)
    assert curl(api, session, f"https://cred.test:{NGHTTPD_PORT}/small") == ("of nghttpd\n", 0)
    assert curl(api, session, *VERSION, f"https://cred.test:{NGHTTPD_PORT}/small") == ("2 200", 0)


def test_curl_speaks_http2_to_an_origin_of_http1(api, box, origins):
    session = box(POLICY)
    assert curl(api, session, *VERSION, "-H", "Authorization: mine", "https://cred.test/x") == ("2 200", 0)
    asked = origins.requests("cred.test")
    assert [one["method"] for one in asked] == ["GET"] and test_egress.authorization(asked[0]) == [SECRET]


def test_an_upload_of_unknown_length_is_one_request(api, box, origins):
    session = box(POLICY)
    output = api.output(session, "head -c 3000000 /dev/zero | curl -sS -T - -X POST https://cred.test/up")
    assert output == "POST cred.test /up\n"
    assert [(one["method"], one["size"]) for one in origins.requests()] == [("POST", 3_000_000)]


def test_the_credential_reaches_an_origin_behind_nghttpx(api, box, origins):
    session = box(POLICY)
    assert curl(api, session, *VERSION, f"https://cred.test:{NGHTTPX_PORT}/x") == ("2 200", 0)
    assert [test_egress.authorization(one) for one in origins.requests()] == [[SECRET]]


def test_a_refused_method_is_a_403_on_its_stream(api, box):
    session = box(POLICY)
    url = f"https://limited.test:{NGHTTPD_PORT}/small"
    assert curl(api, session, *VERSION, "-X", "POST", url) == ("2 403", 0)
    assert curl(api, session, *VERSION, url) == ("2 200", 0)


def test_an_authority_of_another_host_gets_nothing(api, box, origins):
    session = box(policy(rule("cred.test", inject="token"), rule("limited.test", ["GET"]), intercept="all"))
    assert curl(api, session, *VERSION, "-H", "Host: cred.test", "https://limited.test/")[0] in ("2 421", "2 403", "2 400")
    assert origins.requests() == []


def test_large_bodies_arrive_whole_both_ways(api, box):
    session = box(POLICY)
    url = f"https://cred.test:{NGHTTPD_PORT}"
    assert api.output(session, f"curl -sS {url}/large | wc -c") == f"{64 << 20}\n"
    count = api.output(session, f"head -c 20000000 /dev/zero | curl -sS -T - -X POST {url}/echo | wc -c")
    assert count == "20000000\n"


def test_events_arrive_as_they_are_sent(api, box):
    session = box(POLICY)
    assert api.output(session, "curl -sSN https://cred.test/events | while read line; do echo $line; "
                               "curl -sS -o /dev/null https://cred.test/next; done") == "0\n1\n2\n"


def test_grpc_calls_of_every_kind(api, box, egress_daemon):
    session = box(POLICY)
    ca = egress_daemon.settings["DAIV_SANDBOX_EGRESS_CA_CERT_FILE"]
    output, code = in_sandbox_network(egress_daemon, api, session,
                                      [sys.executable, FOLDER / "grpc_client.py", f"cred.test:{GRPC_PORT}", ca])
    assert code == 0, output
    assert output.splitlines() == [f"unary {SECRET} hello 1", "stream part0 part1 part2", "both ONE TWO THREE 0",
                                   "fail FAILED_PRECONDITION as asked for", f"large {len(SECRET) + 1 + 3_000_000}"]


@pytest.mark.parametrize("port", [NGHTTPD_PORT, 443], ids=["http2", "http1"])
def test_h2load_loses_no_request(api, box, egress_daemon, port):
    session = box(POLICY)
    path = "small" if port == NGHTTPD_PORT else "x"
    words = [sys.executable, FOLDER / "connect_relay.py", f"cred.test:{port}", "h2load", "-n2000", "-c4", "-m32",
             "--connect-to=127.0.0.1:{port}", f"https://cred.test:{port}/{path}"]
    output, code = in_sandbox_network(egress_daemon, api, session, words)
    assert code == 0, output
    assert re.search(r"2000 succeeded, 0 failed, 0 errored", output), output


def test_each_stream_is_a_line_of_the_log(api, box, egress_daemon):
    session = box(POLICY)
    curl(api, session, f"https://cred.test:{NGHTTPD_PORT}/small", f"https://cred.test:{NGHTTPD_PORT}/small")
    lines = [line for line in egress_daemon.log_text().splitlines() if session in line and "kind=request" in line]
    assert len(lines) == 2 and all("status=200" in line and "injected=true" in line for line in lines)
    assert "s3cr3t" not in egress_daemon.log_text()


def test_a_put_holds_for_the_next_stream(api, box):
    session = box(POLICY)
    url = f"https://cred.test:{NGHTTPD_PORT}/small"
    assert curl(api, session, *VERSION, url) == ("2 200", 0)
    block = json.dumps(policy(rule("cred.test", ["PUT"], inject="token")))
    assert api.raw("PUT", f"/session/{session}/egress/", block, {"Content-Type": "application/json"})[0] == 204
    assert curl(api, session, *VERSION, url) == ("2 403", 0)
