"""Connections to origins that leave through a named network namespace (DAIV_SANDBOX_EGRESS_PROXY_NETWORK)."""
import subprocess
import time

import pytest

import daemon as daemons
import http2_origins
import test_egress
import unit_daemon
from egress_fixtures import SECRET, STANDARD, curl, make_ca, policy, rule
from hidden_origins import HiddenOrigins
from http2_origins import NGHTTPD_PORT

# With the tests' other load: name look-ups that fail and connections that are refused take no time of their own.
AT_ONCE_SECONDS = 10
# The daemon looks every ten seconds for a namespace that is gone.
RELEASED_SECONDS = 90

box = test_egress.box


@pytest.fixture(scope="module")
def origins():
    with HiddenOrigins() as running:
        yield running


@pytest.fixture
def upstream(origins):
    """The namespace of the module's origins, there again after the test."""
    yield origins
    listed = subprocess.run(["ip", "netns", "list"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    if origins.upstream not in listed:
        origins.make_upstream()


def with_egress(made, origins, **settings):
    made.settings.update(origins.settings)
    made.settings.update(make_ca(made.build, made.directory))
    made.settings.update(settings)
    return made


@pytest.fixture(scope="module")
def egress_daemon(build, origins):
    extra = f"extra.test:{origins.address},alias.test:{origins.own_address}"
    with with_egress(daemons.Daemon(build), origins, DAIV_SANDBOX_EGRESS_EXTRA_HOSTS=extra) as made:
        yield made


@pytest.fixture
def api(egress_daemon, origins):
    origins.clear()
    origins.names()
    return egress_daemon.api()


def refusal(api, session, *words):
    """The page of a request through the proxy that fails, its status behind it; it must not take long."""
    begun = time.monotonic()
    output, code = curl(api, session, "-w", "%{http_code}", *words)
    assert code == 0 and time.monotonic() - begun < AT_ONCE_SECONDS, output
    return output


def test_an_origin_is_reached_by_name_plain_intercepted_and_tunnelled(api, box, origins):
    session = box()
    assert curl(api, session, "http://allowed.test/x") == ("GET allowed.test /x\n", 0)
    assert curl(api, session, "--http1.1", "https://cred.test/x") == ("GET cred.test /x\n", 0)
    output, code = curl(api, session, "-kv", "--stderr", "-", "https://tunnel.test/x")
    assert code == 0 and "issuer: CN=origins of a test" in output and "GET tunnel.test /x" in output
    assert test_egress.authorization(origins.requests("cred.test")[0]) == [SECRET]
    assert {"udp allowed.test", "udp cred.test", "udp tunnel.test"} <= set(origins.asked())


def test_http2_is_spoken_to_an_origin_behind_the_namespace(api, box, origins):
    with http2_origins.serving_nghttpd(origins):
        session = box(policy(rule("cred.test", inject="token")))
        url = f"https://cred.test:{NGHTTPD_PORT}/small"
        assert curl(api, session, url) == ("of nghttpd\n", 0)
        assert curl(api, session, "-o", "/dev/null", "-w", "%{http_version} %{http_code}", url) == ("2 200", 0)


def test_programs_that_know_no_proxy_leave_through_it_too(api, box):
    session = box()
    assert curl(api, session, "--noproxy", "*", "https://cred.test/x") == ("GET cred.test /x\n", 0)


def test_the_resolver_has_streams_of_the_namespace_as_well(api, box, origins):
    origins.names({"tcp.allowed.test": origins.address})
    session = box(policy(rule("tcp.allowed.test")))
    assert curl(api, session, "http://tcp.allowed.test/x") == ("GET tcp.allowed.test /x\n", 0)
    assert {"udp tcp.allowed.test", "tcp tcp.allowed.test"} <= set(origins.asked())


def test_extra_hosts_are_reached_through_it_without_a_name_server(api, box, origins):
    session = box(policy(rule("extra.test")))
    assert curl(api, session, "http://extra.test/x") == ("GET extra.test /x\n", 0)
    assert not [one for one in origins.asked() if one.endswith("extra.test")]


def test_many_connections_at_once_all_get_a_socket(api, box):
    session = box()
    fetch = "curl -sS --max-time 60 -o /dev/null -w '%{http_code}\\n' http://allowed.test/$n"
    output = api.output(session, f"for n in $(seq 60); do {fetch} & done; wait")
    assert output.split() == ["200"] * 60


def test_without_the_setting_the_same_host_is_not_reachable(build, debian, origins):
    extra = {"DAIV_SANDBOX_EGRESS_PROXY_NETWORK": "", "DAIV_SANDBOX_EGRESS_EXTRA_HOSTS": f"allowed.test:{origins.address}"}
    with with_egress(daemons.Daemon(build), origins, **extra) as made:
        api = made.api()
        session = api.create(debian, egress=STANDARD)
        origins.clear()
        assert refusal(api, session, "http://allowed.test/x").endswith("502")
        assert origins.requests() == []
        api.close(session, force=True)


def test_addresses_of_the_namespace_and_of_the_host_are_refused(api, box, origins):
    host = subprocess.run(["ip", "-o", "-4", "address", "show", "scope", "global"], stdout=subprocess.PIPE, text=True,
                          check=True).stdout.split()[3].split("/")[0]
    origins.names({"own.test": origins.own_address, "host.test": host, "late.test": "198.18.250.1"})
    session = box(policy(rule("*.test"), default="allow"))
    for name in ("own.test", "alias.test", "host.test", origins.own_address):
        page = refusal(api, session, f"http://{name}/")
        assert page.endswith("403") and "an address of this host" in page, name
    output, code = curl(api, session, "https://own.test/")
    assert code == 56 and "403" in output
    # One that the namespace gets while the daemon runs is its own from then on.
    assert refusal(api, session, "http://198.18.250.1/").endswith("502")
    late = ["198.18.250.1/32", "dev", "up0"]
    subprocess.run(["ip", "-n", origins.upstream, "address", "add", *late], check=True)
    assert refusal(api, session, "http://198.18.250.1/").endswith("403")
    assert refusal(api, session, "http://late.test/").endswith("403")
    subprocess.run(["ip", "-n", origins.upstream, "address", "delete", *late], check=True)


def test_a_rule_that_names_the_literal_opens_an_address_of_the_namespace(api, box, origins):
    session = box(policy(rule(origins.own_address)))
    page = refusal(api, session, f"http://{origins.own_address}:81/")
    assert page.endswith("502") and "refused" in page.lower(), "tried, where nobody listens"


def test_a_namespace_that_is_gone_fails_at_once_and_one_made_anew_is_used(api, box, upstream):
    upstream.names({"other.test": upstream.address})
    session = box(policy(rule("allowed.test"), rule("tunnel.test"), rule("other.test"), rule(upstream.address)))
    assert curl(api, session, "http://allowed.test/1") == ("GET allowed.test /1\n", 0)
    upstream.delete_upstream()
    # A kept connection, a name that is known, a name that is not, an address: none goes on, all say why.
    for target in ("allowed.test", "other.test", upstream.address):
        page = refusal(api, session, f"http://{target}/2")
        assert page.endswith("502") and f"network namespace {upstream.upstream}" in page, target
    output, code = curl(api, session, "https://tunnel.test/2")
    assert code == 56 and "502" in output
    assert [one["path"] for one in upstream.requests()] == ["/1"]
    upstream.make_upstream()
    for target in ("allowed.test", "other.test"):
        assert curl(api, session, f"http://{target}/3") == (f"GET {target} /3\n", 0)


def test_a_namespace_made_anew_at_once_has_its_own_answers(api, box, upstream):
    upstream.names({"anew.test": upstream.own_address})
    session = box(policy(rule("anew.test")))
    assert refusal(api, session, "http://anew.test/1").endswith("403")
    upstream.delete_upstream()
    upstream.make_upstream()
    upstream.names({"anew.test": upstream.address})
    assert curl(api, session, "http://anew.test/2") == ("GET anew.test /2\n", 0), "not the address that was kept"


def test_sockets_in_reserve_do_not_keep_a_deleted_namespace(api, box, upstream):
    session = box()
    assert curl(api, session, "http://allowed.test/1") == ("GET allowed.test /1\n", 0)
    upstream.delete_upstream()
    deadline = time.monotonic() + RELEASED_SECONDS
    while upstream.link_is_there():
        assert time.monotonic() < deadline, "the daemon holds the namespace"
        time.sleep(0.2)  # a link that goes tells nobody


def test_a_front_that_never_was_root_borrows_sockets_of_its_broker(build, debian, origins):
    made = with_egress(unit_daemon.UnitDaemon(build), origins, DAIV_SANDBOX_EGRESS_PROXY_NETWORK=f"/run/netns/{origins.upstream}")
    for name in ("egress-ca.crt", "egress-ca.key"):
        (made.directory / name).chmod(0o644)  # the front reads it by itself
    try:
        made.start()
        api = made.api()
        session = api.create(debian, egress=STANDARD)
        assert curl(api, session, "https://cred.test/x") == ("GET cred.test /x\n", 0)
        checks = {line.split(None, 1)[1].split("  ")[0]: line.split()[0] for line in made.cli("doctor").stdout.splitlines()}
        assert checks["egress namespace"] == "ok" and checks["egress network"] == "ok"
        api.close(session, force=True)
    finally:
        made.remove()


@pytest.mark.parametrize("value, reason", [
    ("no-such-net0", "no interface of that name, nor a network namespace"),
    ("/run/netns/no-such-net0", "no network namespace of that name"),
    ("/proc/1/ns/net", "right below /run/netns"),
    ("/run/netns/../netns/x", "right below /run/netns"),
])
def test_what_is_neither_keeps_the_daemon_from_starting(build, tmp_path, value, reason):
    made = daemons.Daemon(build, {"DAIV_SANDBOX_NETWORK": value, **make_ca(build, tmp_path)})
    try:
        with pytest.raises(RuntimeError, match=reason):
            made.start()
    finally:
        made.remove()
