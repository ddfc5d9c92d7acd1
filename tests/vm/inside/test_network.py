"""TLS, a pull and egress of the packaged service, under all that closes its front in."""
import shutil

import fake_registry
import guest
import oci
import origins
from egress_fixtures import SECRET, curl, policy, rule

CREDENTIALS = guest.KEY.parent
GIVEN = f"/run/credentials/{guest.FRONT}/DAIV_SANDBOX_"  # what the front sees of them


class Origins(origins.Origins):
    def _repository(self):
        """None: the guest has no git."""


def test_the_api_speaks_tls(_):
    folder = guest.SETTINGS.parent / "tls"
    chain, key = folder / "chain.pem", folder / "key.pem"
    folder.mkdir()
    guest.sh(f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=guest -days 2 -keyout {key} -out {chain} && "
             f"chgrp daiv-sandbox {key} && chmod 640 {key}")
    try:
        guest.restart(DAIV_SANDBOX_TLS_CERT_FILE=chain, DAIV_SANDBOX_TLS_KEY_FILE=key)
        assert guest.sh(f"curl -sS --insecure -o /dev/null -w '%{{http_code}}' https://127.0.0.1:{guest.PORT}/-/health/") == "200"
    finally:
        shutil.rmtree(folder)
        guest.restart()


def test_an_image_is_pulled(_):
    with fake_registry.FakeRegistry(oci.load_oci_layout(guest.SHARE / "busybox.layout")) as registry:
        guest.sh(f"daiv-sandbox pull {registry.reference}")
        with guest.Session(registry.reference) as session:
            assert session.run("echo hello") == ("hello\n", 0)


def test_a_session_reaches_what_its_policy_allows(_):
    files = [CREDENTIALS / name for name in ("egress-ca.crt", "egress-ca.key", "upstream-ca.pem")]
    guest.sh("daiv-sandbox ca init --cert {} --key {}".format(*files))
    with Origins() as servers:
        shutil.copy(servers.ca, files[2])
        guest.restart(**servers.settings | {
            "DAIV_SANDBOX_EGRESS_CA_CERT_FILE": GIVEN + files[0].name, "DAIV_SANDBOX_EGRESS_CA_KEY_FILE": GIVEN + files[1].name,
            "DAIV_SANDBOX_EGRESS_UPSTREAM_CA_FILE": GIVEN + files[2].name})
        try:
            allowed = policy(rule("allowed.test"), rule("cred.test", inject="token"))
            with guest.Session(egress=allowed) as session:
                assert curl(session.api, session.id, "http://allowed.test/hello") == ("GET allowed.test /hello\n", 0)
                assert curl(session.api, session.id, "https://cred.test/hello") == ("GET cred.test /hello\n", 0)
                assert ["Authorization", SECRET] in servers.requests("cred.test")[-1]["headers"]
                assert "not allowed" in curl(session.api, session.id, "http://denied.test/")[0]
                assert servers.requests("denied.test") == []
        finally:
            for file in files:
                file.unlink()
            guest.restart()
