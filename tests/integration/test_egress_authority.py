"""The pair of the egress CA: made by others' tools, repaired, replaced while the daemon runs."""
import shutil
import subprocess
import time

import pytest

import daemon as daemons
from egress_fixtures import curl, make_ca, policy, rule

POLICY = policy(rule("cred.test", inject="token"))
# Python 3.13 verifies so by default.
STRICT = """python3 -c "
import ssl, urllib.request
context = ssl.create_default_context()
context.verify_flags |= ssl.VERIFY_X509_STRICT
print(urllib.request.urlopen('https://cred.test/x', context=context).read().decode(), end='')" """


@pytest.fixture
def serve(build, origins):
    """serve(make): a daemon with the CA pair that MAKE writes into its directory, which returns the settings for it."""
    made = []

    def start(make):
        daemon = daemons.Daemon(build, {})
        made.append(daemon)
        daemon.settings.update(origins.settings)
        daemon.settings.update(make(build, daemon.directory))
        return daemon.start()

    yield start
    for daemon in made:
        daemon.remove()


def openssl_pair(_build, directory):
    """As the Docker variant's documentation makes it."""
    certificate, key = directory / "egress-ca.crt", directory / "egress-ca.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:4096", "-nodes", "-keyout", key, "-out", certificate, "-days", "3650",
                    "-subj", "/CN=daiv-sandbox-egress"], check=True, stderr=subprocess.PIPE)
    return {"DAIV_SANDBOX_EGRESS_CA_CERT_FILE": str(certificate), "DAIV_SANDBOX_EGRESS_CA_KEY_FILE": str(key)}


def hand_over(path, place):
    """Puts a file where the daemon looks for it, for its own user to read."""
    shutil.chown(path, "daiv-sandbox")
    shutil.move(path, place)


def wait_for(condition, what, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)  # the daemon looks at its files in intervals


def test_a_pair_that_strict_clients_refuse_is_named_and_mended_in_sandboxes(serve, debian):
    daemon = serve(openssl_pair)
    assert "strict clients refuse the egress CA" in daemon.log_text() and "keyUsage" in daemon.log_text()
    api = daemon.api()
    session = api.create(debian, egress=POLICY)
    assert api.output(session, STRICT) == "GET cred.test /x\n"
    assert "keyUsage" in daemon.cli("ca", "check").stdout + daemon.cli("ca", "check").stderr
    assert daemon.cli("ca", "repair").returncode == 0
    checked = daemon.cli("ca", "check")
    assert checked.returncode == 0 and "keyUsage" not in checked.stdout + checked.stderr
    # The key is the same: what runs goes on, and what starts now is as well served.
    assert api.output(session, STRICT) == "GET cred.test /x\n"
    assert api.output(api.create(debian, egress=POLICY), STRICT) == "GET cred.test /x\n"


def test_a_replaced_pair_holds_for_new_sessions(serve, debian, build, tmp_path):
    daemon = serve(make_ca)
    api = daemon.api()
    before = api.create(debian, egress=POLICY)
    renewed = make_ca(build, tmp_path)
    for name, path in renewed.items():
        hand_over(path, daemon.settings[name])
    wait_for(lambda: "event=egress_ca_replaced" in daemon.log_text(), "the new pair is not read")
    after = api.create(debian, egress=POLICY)
    assert curl(api, after, "https://cred.test/x") == ("GET cred.test /x\n", 0)
    installed = "cat /usr/local/share/ca-certificates/daiv-egress.crt"
    assert api.output(before, installed) != api.output(after, installed)


def test_a_pair_that_does_not_match_leaves_the_old_one(serve, debian, build, tmp_path):
    daemon = serve(make_ca)
    name = "DAIV_SANDBOX_EGRESS_CA_CERT_FILE"
    shutil.chown(daemon.settings["DAIV_SANDBOX_EGRESS_CA_KEY_FILE"], "daiv-sandbox")
    hand_over(make_ca(build, tmp_path)[name], daemon.settings[name])
    wait_for(lambda: "event=egress_ca_not_taken" in daemon.log_text(), "a pair that does not match is not reported")
    api = daemon.api()
    session = api.create(debian, egress=POLICY)
    assert curl(api, session, "https://cred.test/x") == ("GET cred.test /x\n", 0)
