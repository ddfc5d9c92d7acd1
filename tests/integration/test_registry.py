"""Inputs that broke others: registries. Cut blobs with every mood of the server, and the zoo of authentication."""
import concurrent.futures
import json
import os
import time

import pytest

import images
import oci
from daemon import Refused
from fake_registry import CUT, FakeRegistry, basic


def unique_image(size=300_000):
    """An image that no other test has pulled, with one incompressible layer that is worth cutting."""
    return images.busybox(None, oci.Layer.of(oci.entry("opt"), oci.entry("opt/noise", os.urandom(size))))


def pull(api, reference):
    session = api.create(reference)
    try:
        return api.output(session, "stat -c %s /opt/noise")
    finally:
        api.close(session, force=True)


@pytest.fixture
def big_image():
    # The noise is larger than busybox itself, so that it is the blob that the registry is moody about.
    return unique_image(4_000_000)


@pytest.mark.parametrize("mood", ["right", "500 twice", "wrong start", "no Content-Range", "other ETag", "full body", "416"])
def test_a_cut_blob_is_completed_whatever_the_server_answers(api, daemon, big_image, mood):
    with FakeRegistry(big_image, mood) as registry:
        assert pull(api, registry.reference) == "4000000\n"
        size = len(registry.blobs[registry.big])
        if mood in ("right", "500 twice"):
            assert registry.sent <= size + CUT, "resumed, not begun again"
        assert registry.tries <= 6


def test_a_stalled_blob_fails_at_the_limit_without_progress(own_daemon, big_image):
    daemon = own_daemon(DAIV_SANDBOX_PULL_NO_PROGRESS_SECONDS="2")
    with FakeRegistry(big_image, "stalls") as registry:
        started = time.monotonic()
        with pytest.raises(Refused) as refused:
            daemon.api().create(registry.reference)
        assert refused.value.status == 503
        assert time.monotonic() - started < 60


def test_concurrent_pulls_of_one_image_fetch_it_once(daemon, big_image):
    with FakeRegistry(big_image) as registry:
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            assert set(pool.map(lambda _: pull(daemon.api(), registry.reference), range(6))) == {"4000000\n"}
        assert len([request for request in registry.asked(registry.big) if request[0] == "GET"]) == 1


def test_a_wrong_digest_is_refused(api, big_image):
    with FakeRegistry(big_image) as registry:
        blob = bytearray(registry.blobs[registry.big])
        blob[len(blob) // 2] ^= 1
        registry.blobs[registry.big] = bytes(blob)
        with pytest.raises(Refused) as refused:
            api.create(registry.reference)
        assert refused.value.status in (400, 503)


def test_a_blob_longer_than_its_descriptor_is_refused(api, big_image):
    with FakeRegistry(big_image) as registry:
        registry.blobs[registry.big] += b"more"
        with pytest.raises(Refused) as refused:
            api.create(registry.reference)
        assert refused.value.status in (400, 503)


# --- authentication ---------------------------------------------------------------------------------------------------

USER, PASSWORD = "robot$x", "pa:ss@word"


def bearer_only(handler, challenge):
    return None if handler.headers.get("Authorization") == "Bearer right" else challenge


CHALLENGES = {
    "usual": 'Bearer realm="{url}/token",service="fake",scope="repository:app:pull"',
    "no scope": 'Bearer realm="{url}/token",service="fake"',
    "no service": 'Bearer realm="{url}/token",scope="repository:app:pull"',
    "extra commas": 'Bearer realm="{url}/token", ,service="fake",,scope="repository:app:pull",',
    "lower case": 'bearer realm="{url}/token",service="fake",scope="repository:app:pull"',
    "two challenges": ['Basic realm="x"', 'Bearer realm="{url}/token",service="fake",scope="repository:app:pull"'],
}
TOKENS = {
    "access_token only": {"access_token": "right"},
    "token only": {"token": "right"},
    "both": {"token": "right", "access_token": "right", "expires_in": 300},
    "no expires_in": {"token": "right", "issued_at": "2024-01-01T00:00:00Z"},
    "short life": {"token": "right", "expires_in": 61},
}


def with_url(challenge, address):
    values = challenge if isinstance(challenge, list) else [challenge]
    return [value.replace("{url}", f"http://{address}") for value in values]


def token_registry(challenge, token):
    registry = FakeRegistry(unique_image(), token=lambda _: (200, token))
    values = with_url(challenge, registry.address)
    registry.challenge = lambda handler: bearer_only(handler, values)
    return registry


@pytest.mark.parametrize("kind", CHALLENGES)
def test_challenges(api, kind):
    with token_registry(CHALLENGES[kind], TOKENS["both"]) as registry:
        assert pull(api, registry.reference) == "300000\n"
        assert len(registry.asked("/token")) <= 2


@pytest.mark.parametrize("kind", TOKENS)
def test_token_answers(api, kind):
    with token_registry(CHALLENGES["usual"], TOKENS[kind]) as registry:
        assert pull(api, registry.reference) == "300000\n"


def test_a_token_that_is_never_right_is_no_loop(api):
    with token_registry(CHALLENGES["usual"], {"token": "wrong"}) as registry:
        with pytest.raises(Refused) as refused:
            api.create(registry.reference)
        assert refused.value.status == 400
        assert len(registry.requests) < 20


def test_credentials_from_the_auth_file_and_never_in_the_log(own_daemon, tmp_path):
    with FakeRegistry(unique_image()) as registry:
        registry.challenge = lambda handler: None if handler.headers.get("Authorization") == basic(USER, PASSWORD) else 'Basic realm="x"'
        auth = tmp_path / "auth.json"
        secret = basic(USER, PASSWORD).split()[1]
        auth.write_text(json.dumps({"auths": {registry.address: {"auth": secret}}}))
        daemon = own_daemon(DAIV_SANDBOX_REGISTRY_AUTH_FILE=str(auth), DAIV_SANDBOX_LOG_LEVEL="DEBUG")
        assert pull(daemon.api(), registry.reference) == "300000\n"
        assert PASSWORD not in daemon.log_text() and secret not in daemon.log_text()


def test_basic_credentials_are_changed_for_a_token(own_daemon, tmp_path):
    def token(handler):
        right = handler.headers.get("Authorization") == basic(USER, PASSWORD)
        return (200, {"token": "right"}) if right else (401, {})

    with FakeRegistry(unique_image(), token=token) as registry:
        values = with_url(CHALLENGES["usual"], registry.address)
        registry.challenge = lambda handler: bearer_only(handler, values)
        auth = tmp_path / "auth.json"
        auth.write_text(json.dumps({"auths": {registry.address: {"auth": basic(USER, PASSWORD).split()[1]}}}))
        daemon = own_daemon(DAIV_SANDBOX_REGISTRY_AUTH_FILE=str(auth))
        assert pull(daemon.api(), registry.reference) == "300000\n"
        for _, path, headers in registry.requests:
            if not path.startswith("/token"):
                assert not headers.get("Authorization", "").startswith("Basic"), "the password goes to the token server alone"


def test_too_many_requests_waits_as_told(api):
    with FakeRegistry(unique_image()) as registry:
        limited = []

        def challenge(handler):
            if "/manifests/" in handler.path and not limited:
                limited.append(time.monotonic())
                handler.answer(429, b"{}", Retry_After="1")
                raise ConnectionAbortedError  # answered already
            if limited and "/manifests/" in handler.path:
                limited.append(time.monotonic())
            return None

        registry.challenge = challenge
        registry.server.handle_error = lambda *_: None
        assert pull(api, registry.reference) == "300000\n"
        assert limited[1] - limited[0] >= 0.9


def test_a_manifest_is_verified_by_its_digest(api):
    """CVE-2021-41190 is the ambiguous kind; this is the plain one: other bytes than the digest names."""
    with FakeRegistry(unique_image()) as registry:
        with pytest.raises(Refused) as refused:
            api.create(f"{registry.address}/app@{oci.digest(b'something else')}")
        assert refused.value.status == 400


def test_a_wrong_platform_is_named(api, push):
    image = unique_image()
    image.architecture = "s390x"
    with pytest.raises(Refused) as refused:
        api.create(push(image, "s390x"))
    assert refused.value.status == 400 and "s390x" in refused.value.detail
