"""Node as a client: it reads neither the proxy variables (before 24) nor the system's certificates, but two of the
variables that sessions get."""
import shutil

import pytest

import daemon as daemons
import host_programs
from egress_fixtures import SECRET, STANDARD, make_ca

NODE = shutil.which("node") or "/usr/bin/node"


@pytest.fixture(scope="module")
def node_daemon(build, origins, tmp_path_factory):
    with daemons.Daemon(build, {**origins.settings, **make_ca(build, tmp_path_factory.mktemp("ca"))}) as made:
        yield made


@pytest.fixture
def node(node_daemon, origins, push):
    """node(script, prefix): what a script prints in a session, in which PREFIX stands before the program."""
    api = node_daemon.api()
    session = api.create(push(host_programs.image(NODE), "node"), egress=STANDARD)
    origins.clear()
    yield lambda script, prefix="": api.run_one(session, f"{prefix} {NODE} -e '{script}' 2>&1")[0]
    api.close(session, force=True)


ASK = 'fetch("{}").then(async it => console.log(it.status, await it.text())).catch(it => console.log(String(it.cause?.code ?? it)))'
ASK_HTTPS = ('require("https").get("{}", it => {{ it.setEncoding("utf8"); it.on("data", text => console.log(it.statusCode, text)) }})'
             '.on("error", it => console.log(it.code))')


@pytest.mark.parametrize("ask", [ASK, ASK_HTTPS], ids=["fetch", "https"])
def test_node_trusts_the_proxy_and_gets_the_credential(node, origins, ask):
    assert node('console.log(process.env.NODE_USE_ENV_PROXY, process.env.NODE_EXTRA_CA_CERTS)') == \
        "1 /etc/ssl/certs/ca-certificates.crt\n"
    assert node(ask.format("https://cred.test/n")).split() == ["200", "GET", "cred.test", "/n"]
    request, = origins.requests()
    assert [value for name, value in request["headers"] if name.lower() == "authorization"] == [SECRET]
    assert "403" in node(ask.format("https://denied.test/n"))
    # The variable is what it trusts the proxy by.
    refused = node(ask.format("https://cred.test/n"), "env -u NODE_EXTRA_CA_CERTS")
    assert "UNABLE_TO_VERIFY_LEAF_SIGNATURE" in refused, refused
    assert len(origins.requests()) == 1
