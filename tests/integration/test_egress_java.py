"""Java's own trust stores and proxy properties, with a real JRE: Debian's, on the host and, copied into an image, inside."""
import base64
import os
import pathlib
import shutil
import subprocess

import pytest

import daemon as daemons
import host_programs
import images
import oci
from egress_fixtures import make_ca, policy, rule

ALIAS = "daiv-egress"
KEYTOOL = shutil.which("keytool")
HOME = pathlib.Path(os.path.realpath(KEYTOOL or "/usr/bin/false")).parents[1]
PASSWORDLESS = ["-J-Dkeystore.pkcs12.macAlgorithm=NONE", "-J-Dkeystore.pkcs12.certProtectionAlgorithm=NONE"]
LEGACY = ["-J-Dkeystore.pkcs12.legacy"]
OLD_STORE = "/opt/cacerts-of-the-image"


def keytool(*words):
    done = subprocess.run([KEYTOOL, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    return done.stdout


def make_store(directory, kind, options=(), password="changeit"):
    """The bytes of a store with two certificates of the kind that a root program has."""
    store = directory / f"store-{kind}-{password}-{len(options)}-{'NONE' in str(options)}"
    for alias in ("first", "second"):
        pem = directory / f"{alias}.pem"
        if not pem.exists():
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "9",
                            "-keyout", directory / "key", "-out", pem, "-subj", f"/CN={alias}"], check=True, stderr=subprocess.PIPE)
        keytool(*options, "-importcert", "-noprompt", "-alias", alias, "-file", pem, "-keystore", store, "-storetype", kind,
                "-storepass", password)
    return store.read_bytes()


def entries(path, password="changeit"):
    """alias → PEM of the trusted certificates, as Java reads them."""
    found = {}
    for part in keytool("-list", "-rfc", "-keystore", path, "-storepass", password).split("Alias name: ")[1:]:
        assert "Entry type: trustedCertEntry" in part
        found[part.splitlines()[0].strip()] = part[part.index("-----BEGIN"):part.index("-----END")]
    return found


@pytest.fixture(scope="module")
def java_daemon(build, origins):
    made = daemons.Daemon(build, {})
    # Without transparent mode, so that the proxy properties are what gets Java out.
    made.settings.update({**origins.settings, **make_ca(made.build, made.directory), "DAIV_SANDBOX_EGRESS_TRANSPARENT": "off"})
    with made:
        yield made


@pytest.fixture(scope="module")
def certificate(java_daemon):
    pem = pathlib.Path(java_daemon.settings["DAIV_SANDBOX_EGRESS_CA_CERT_FILE"]).read_text()
    return pem[pem.index("-----BEGIN"):pem.index("-----END")]


@pytest.fixture
def start(java_daemon):
    api = java_daemon.api()
    made = []

    def run(image, **more):
        made.append(api.create(image, egress=policy(rule("allowed.test"), intercept="all"), **more))
        return api, made[-1]

    yield run
    for session in made:
        api.close(session, force=True)


def test_every_kind_of_store_takes_the_certificate(start, push, tmp_path, certificate):
    debian = pathlib.Path("/etc/ssl/certs/java/cacerts").read_bytes()
    stores = {"etc/ssl/certs/java/cacerts": debian,
              "etc/pki/ca-trust/extracted/java/cacerts": make_store(tmp_path, "JKS"),
              "opt/java/openjdk/lib/security/cacerts": make_store(tmp_path, "PKCS12", PASSWORDLESS),
              "srv/own-java/lib/security/cacerts": make_store(tmp_path, "PKCS12"),
              "usr/lib/jvm/java-8/jre/lib/security/cacerts": make_store(tmp_path, "PKCS12", LEGACY)}
    others = {"usr/lib/jvm/a/lib/security/cacerts": make_store(tmp_path, "JKS", password="another"),
              "usr/lib/jvm/b/lib/security/cacerts": make_store(tmp_path, "JCEKS"),
              "usr/lib/jvm/c/lib/security/cacerts": b"no store at all"}
    layer = oci.Layer.of(*(oci.entry(path, content) for path, content in {**stores, **others}.items()),
                         oci.symlink("usr/lib/jvm/default/lib/security/cacerts", "/etc/ssl/certs/java/cacerts"))
    api, session = start(push(images.busybox({"Env": [*images.ENVIRONMENT, "JAVA_HOME=/srv/own-java"]}, layer), "java-stores"))

    def fetch(path):
        return base64.b64decode(api.output(session, f"base64 /{path}"))

    read = {}
    for path, before in stores.items():
        old, new = tmp_path / "old", tmp_path / "new"
        old.write_bytes(before)
        read[path] = fetch(path)
        new.write_bytes(read[path])
        kept, now = entries(old), entries(new)
        assert now.pop(ALIAS).split() == certificate.split(), path
        assert now == kept and kept, path
    assert len(read["etc/ssl/certs/java/cacerts"]) - len(debian) < 2000
    for path, before in others.items():
        assert fetch(path) == before, path
    # The same certificate again: nothing is written.
    api.close(session)
    assert {path: fetch(path) for path in stores} == read


def java_image():
    """The host's JRE, and its store a second time where no Java looks for it."""
    skipped = {"man", "docs", "legal", "include", "jmods", "src.zip", "ct.sym"}
    files = [path for path in HOME.rglob("*") if path.is_file() and not skipped & set(path.relative_to(HOME).parts)]
    image = host_programs.image(*files)
    store = oci.Layer.of(oci.entry(OLD_STORE.lstrip("/"), (HOME / "lib" / "security" / "cacerts").read_bytes()))
    return oci.Image([*image.layers, store], image.config, image.architecture)


def test_java_reaches_an_allowed_host_over_https(start, push, origins):
    # keytool fetches a CRL with the JRE's own HTTPS client, trust store and proxy settings. It is no CRL that the origin
    # sends, so that it fails after the answer: what counts is what arrived.
    api, session = start(push(java_image(), "java-jre"))
    fetch = f"{HOME}/bin/keytool -printcrl -file https://{{}} {{}} 2>&1; true"
    origins.clear()
    output = api.output(session, fetch.format("allowed.test/crl", ""))
    assert [(one["host"], one["path"]) for one in origins.requests()] == [("allowed.test", "/crl")], output
    assert "Picked up JAVA_TOOL_OPTIONS" in output
    origins.clear()
    untrusting = api.output(session, fetch.format("allowed.test/crl", f"-J-Djavax.net.ssl.trustStore={OLD_STORE}"))
    assert "PKIX" in untrusting or "SSLHandshakeException" in untrusting or "certification path" in untrusting, untrusting
    assert "403" in api.output(session, fetch.format("denied.test/crl", ""))
    assert origins.requests() == []
