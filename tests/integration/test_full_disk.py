"""A disk of the state directory's own that sessions fill to the last block, and one whose power is cut."""
import shutil
import subprocess
import time

import pytest

import daemon as daemons

KEEP_GOING = {"DAIV_SANDBOX_MIN_FREE_DISK_BYTES": "0", "DAIV_SANDBOX_DISK_WATERMARK": "1"}
FILL = "cat /dev/zero > big; for i in $(seq 300); do echo x > f$i || break; done"


class Disk:
    """A daemon whose state lies on an ext4 of its own, in a file."""

    def __init__(self, build, directory, megabytes=160):
        self.file = directory / "disk.img"
        with open(self.file, "wb") as image:
            image.truncate(megabytes << 20)
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(self.file)], check=True)
        self.daemon = daemons.Daemon(build, KEEP_GOING)
        self.mount(self.file)

    def mount(self, file):
        self.daemon.state.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-o", "loop", str(file), str(self.daemon.state)], check=True)

    def unmount(self):
        subprocess.run(["umount", "-l", str(self.daemon.state)], check=True)

    def end_everything(self):
        """The daemon and its sandboxes, as a host that loses its power does it."""
        self.daemon.kill()
        daemons.kill_leftovers(self.daemon.uids)
        daemons.remove_cgroup(self.daemon.cgroup)

    def remove(self):
        self.end_everything()
        self.unmount()
        self.daemon.remove()


@pytest.fixture()
def disk(build, tmp_path):
    made = Disk(build, tmp_path)
    yield made
    made.remove()


def refused_with(statuses, call, *arguments, **more):
    """Whether the call was answered, or refused with one of the statuses."""
    try:
        call(*arguments, **more)
        return False
    except daemons.Refused as refused:
        assert refused.status in statuses, refused
        return True


def test_a_full_disk_is_left_by_deleting(disk, busybox):
    daemon = disk.daemon.start()
    api = daemon.api()
    filler, other, stopped, idle = (api.create(busybox) for _ in range(4))
    api.close(stopped)
    api.run_one(filler, FILL)
    assert api.output(other, "echo on").strip() == "on", "running ones go on"
    refused_with({503}, api.create, busybox)
    refused_with({503}, api.run_one, stopped, "true")
    assert api.status(stopped) != 404
    api.close(idle)
    assert daemon.cli("rm", other).returncode == 0
    assert api.status(other) == 404
    daemon.kill()
    daemon.start()  # the disk is as full as before
    api = daemon.api()
    assert daemon.cli("prune", "--all").returncode == 0
    api.close(filler, force=True)
    deadline = time.monotonic() + 30
    while refused_with({503}, api.run_one, stopped, "true"):  # its files go from the trash
        assert time.monotonic() < deadline
        time.sleep(0.1)
    for session in (stopped, idle):
        api.close(session, force=True)


def test_a_removal_that_cannot_be_recorded_leaves_the_session_as_it_was(disk, busybox):
    daemon = disk.daemon.start()
    api = daemon.api()
    session = api.create(busybox)
    api.run_one(session, "echo kept > kept")
    log = daemon.state / "front" / "state.db-wal"
    subprocess.run(["chattr", "+i", str(log)], check=True)  # ext4 then refuses also what is open already
    try:
        assert refused_with({500, 503}, api.close, session, force=True)
        assert api.output(session, "cat kept") == "kept\n", "it is there, and runs"
    finally:
        subprocess.run(["chattr", "-i", str(log)], check=True)
    api.close(session, force=True)
    assert api.status(session) == 404


def test_a_session_that_was_answered_outlives_a_power_cut(disk, busybox):
    daemon = disk.daemon.start()
    api = daemon.api()
    session = api.create(busybox)
    api.run_one(session, "echo precious > file; sync file")
    cut = disk.file.with_suffix(".cut")
    shutil.copy(disk.file, cut)  # what the disk has got so far, and nothing of the page cache's
    disk.end_everything()
    disk.unmount()
    shutil.rmtree(daemon.runtime, ignore_errors=True)
    disk.mount(cut)
    daemon.start()
    api = daemon.api()
    assert api.output(session, "cat file") == "precious\n"
    api.close(session, force=True)
