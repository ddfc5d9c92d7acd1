"""The store of images over time: what stays, what goes by itself, and what happens where the disk is full."""
import json
import os
import time

import pytest

import daemon as daemons
import images
import oci
from daemon import Refused
from fake_registry import FakeRegistry

SWEEP_SECONDS = 30


def text_image(text):
    return images.busybox(None, oci.Layer.of(oci.entry("opt/text", text)))


def references(daemon):
    return [image["reference"] for image in json.loads(daemon.cli("images", "--json").stdout)]


def wait_for_log(daemon, text):
    deadline = time.monotonic() + SWEEP_SECONDS
    while text not in daemon.log_text():
        assert time.monotonic() < deadline, daemon.log_text()[-3000:]
        time.sleep(0.1)


def test_above_the_watermark_unused_images_go_and_used_ones_stay(own_daemon, push):
    daemon = own_daemon(DAIV_SANDBOX_DISK_WATERMARK="0.001")
    used, unused, last = (push(text_image(name), f"watermark-{name}") for name in ("used", "unused", "last"))
    api = daemon.api()
    session = api.create(used)
    api.close(api.create(unused), force=True)
    other = api.create(last)  # a pull, and so another sweep
    wait_for_log(daemon, f"event=image_removed reason=disk_watermark image={unused}")
    assert set(references(daemon)) == {used, last}
    assert api.output(session, "cat /opt/text") == "used"
    assert len(list((daemon.state / "layers").glob("[a-z0-9]*"))) == 3, "busybox and a layer for each session"
    for one in (session, other):
        api.close(one, force=True)


def test_below_the_watermark_nothing_goes(own_daemon, push):
    daemon = own_daemon(DAIV_SANDBOX_DISK_WATERMARK="1")
    reference = push(text_image("kept"), "watermark-kept")
    daemon.api().close(daemon.api().create(reference), force=True)
    time.sleep(1)
    assert references(daemon) == [reference] and "event=image_removed" not in daemon.log_text()


@pytest.mark.parametrize("keep, fetches", [("true", 1), ("false", 2)])
def test_blobs_are_kept_where_the_setting_says_so(own_daemon, keep, fetches):
    daemon = own_daemon(DAIV_SANDBOX_KEEP_BLOBS=keep)
    image = images.busybox(None, oci.Layer.of(oci.entry("opt"), oci.entry("opt/noise", os.urandom(3_000_000))))
    with FakeRegistry(image) as registry:
        for _ in range(2):
            api = daemon.api()
            api.close(api.create(registry.reference), force=True)
            assert daemon.cli("prune", "--all").returncode == 0
            assert references(daemon) == []
        assert len([request for request in registry.asked(registry.big) if request[0] == "GET"]) == fetches


def test_a_pull_finds_that_the_tag_has_moved_and_a_session_does_not_look(own_daemon, push):
    daemon = own_daemon()
    reference = push(text_image("old"), "moving")

    def text():
        api = daemon.api()
        session = api.create(reference)
        try:
            return api.output(session, "cat /opt/text")
        finally:
            api.close(session, force=True)

    assert text() == "old"
    push(text_image("new"), "moving")
    assert text() == "old"
    assert daemon.cli("pull", reference).returncode == 0
    assert text() == "new"


def test_a_full_disk_is_said_and_leaves_nothing(build, push):
    """On a file system of its own. 503, since room may be made; then a small image fits."""
    with daemons.on_tmpfs(build, "size=32m", DAIV_SANDBOX_MIN_FREE_DISK_BYTES="0") as daemon:
        api = daemon.api()
        large = images.busybox(None, oci.Layer.of(oci.entry("opt/noise", os.urandom(40_000_000))))
        with pytest.raises(Refused) as refused:
            api.create(push(large, "too-large"))
        assert refused.value.status == 503 and "space" in refused.value.detail
        assert references(daemon) == []
        session = api.create(push(text_image("small"), "small"))
        assert api.output(session, "cat /opt/text") == "small"
        api.close(session, force=True)
