"""What the tests of egress share: origins, a daemon with a CA, and policies."""
import subprocess

import origins as origin_servers

SECRET = "Bearer s3cr3t-of-the-test"


def rule(host, methods=None, inject=None):
    made = {"host": host}
    if methods:
        made["methods"] = methods
    if inject:
        made["inject"] = inject
    return made


def policy(*rules, default="deny", intercept="credentialed", secret=SECRET):
    secrets = {"token": {"header": "Authorization", "value": secret}} if any("inject" in one for one in rules) else {}
    return {"policy": {"default": default, "intercept": intercept, "rules": list(rules)}, "secrets": secrets}


STANDARD = policy(rule("allowed.test"), rule("cred.test", inject="token"), rule("limited.test", ["GET"]), rule("tunnel.test"))


def make_ca(daemon_class_build, directory):
    """Settings that name a pair made by `daiv-sandbox ca init`."""
    certificate, key = directory / "egress-ca.crt", directory / "egress-ca.key"
    subprocess.run([str(daemon_class_build / "cli" / "daiv-sandbox"), "ca", "init", "--cert", str(certificate), "--key", str(key)],
                   check=True, stdout=subprocess.PIPE)
    return {"DAIV_SANDBOX_EGRESS_CA_CERT_FILE": str(certificate), "DAIV_SANDBOX_EGRESS_CA_KEY_FILE": str(key)}


def curl(api, session, *arguments):
    """(output, exit code) of curl -s with these words, none of which may hold a quote."""
    return api.run_one(session, "curl -sS --max-time 20 " + " ".join(f"'{word}'" for word in arguments))


__all__ = ["SECRET", "STANDARD", "curl", "make_ca", "origin_servers", "policy", "rule"]
