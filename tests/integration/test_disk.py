"""A disk that is nearly full: what is refused, what goes on, and what doctor says of it."""
import json
import os
import time

import pytest

import images
import oci
from daemon import Refused, on_tmpfs

ABOVE_ANY_DISK = str(1 << 49)
UNAVAILABLE = 4  # exit status, daiv-sandbox(8)


def checks(daemon):
    """{name: result} of doctor."""
    listed = json.loads(daemon.cli("doctor", "--json").stdout)
    assert len({check["name"] for check in listed}) == len(listed), "a check is there twice"
    return {check["name"]: check["result"] for check in listed}


def refusal(call, *arguments, **more):
    with pytest.raises(Refused) as refused:
        call(*arguments, **more)
    return refused.value.status, refused.value.detail


def test_below_the_floor_sessions_and_images_are_refused_and_the_rest_goes_on(own_daemon, busybox, push, tmp_path):
    daemon = own_daemon()
    session = daemon.api().create(busybox)
    daemon.api().run(session, "echo kept > f")
    daemon.stop()
    daemon.settings["DAIV_SANDBOX_MIN_FREE_DISK_BYTES"] = ABOVE_ANY_DISK
    daemon.start()
    api = daemon.api()
    assert api.output(session, "cat f") == "kept\n"
    api.close(session)
    assert api.output(session, "cat f") == "kept\n", "an existing one is reopened"
    other = push(images.busybox(None, oci.Layer.of(oci.entry("opt/below", "the floor"))), "below-the-floor")
    for image in (busybox, other):
        status, detail = refusal(api.create, image)
        assert status == 503 and "DAIV_SANDBOX_MIN_FREE_DISK_BYTES" in detail
    pull = daemon.cli("pull", other)
    assert pull.returncode == UNAVAILABLE and "DAIV_SANDBOX_MIN_FREE_DISK_BYTES" in pull.stderr
    archive = tmp_path / "image.tar"
    noise = oci.Layer.of(oci.entry("opt/noise", os.urandom(4 << 20)))
    oci.save_docker_archive(images.busybox(None, noise), archive, "noise:1")
    with archive.open("rb") as source:
        load = daemon.cli("load", "-", stdin=source)
        assert load.returncode == UNAVAILABLE and "DAIV_SANDBOX_MIN_FREE_DISK_BYTES" in load.stderr, load.stderr
        # The daemon reads from this very descriptor.
        assert os.lseek(source.fileno(), 0, os.SEEK_CUR) == 0, "it was copied first"
    said = checks(daemon)
    assert "DAIV_SANDBOX_MIN_FREE_DISK_BYTES" in said["disk"] and said["overlay"] == "ok", said
    api.close(session, force=True)


def test_a_session_that_takes_the_last_inodes_takes_no_image_and_no_session_with_it(build, busybox):
    with on_tmpfs(build, "size=256m,nr_inodes=4000", DAIV_SANDBOX_MIN_FREE_DISK_BYTES="1") as daemon:
        api = daemon.api()
        greedy, other = api.create(busybox), api.create(busybox)
        api.close(other)
        api.run(greedy, "i=0; while true > e$i; do i=$((i+1)); done 2>/dev/null")
        status, detail = refusal(api.create, busybox)
        assert status == 503 and "inodes" in detail
        said = checks(daemon)
        assert "inodes" in said["disk"]
        assert "5.19" not in said["overlay"] and "no space" in said["overlay"]
        api.close(greedy, force=True)
        deadline = time.monotonic() + 60
        while "inodes" in checks(daemon)["disk"]:  # deleted in the background
            assert time.monotonic() < deadline
        api.close(api.create(busybox), force=True)
        api.close(other, force=True)
