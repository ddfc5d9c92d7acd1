"""The package's end: removed, then purged, with a session that runs and a state directory that is a file system of its own."""
import apparmor
import guest


def test_the_apparmor_profile_is_taken_back(_):
    apparmor.need()
    apparmor.take_back()
    assert apparmor.confinement() == "unconfined\n"


def test_removal_ends_sessions_and_keeps_their_files(_):
    guest.leave_process(guest.api().create(guest.BUSYBOX))
    guest.apt("remove", "daiv-sandbox")
    assert not guest.commands("100000") and not guest.CGROUPS.parent.exists()
    assert not guest.answers() and (guest.STATE / "front/state.db").exists() and guest.KEY.exists()


def test_purge_leaves_nothing(_):
    guest.apt("purge", "daiv-sandbox")
    assert {path.name for path in guest.STATE.iterdir()} <= {"lost+found"}
    assert "daiv" not in guest.sh("cat /proc/self/mountinfo").replace(str(guest.STATE), "")
    left = guest.sh("find /etc /run /usr /var/lib /sys/fs/cgroup -xdev -name '*daiv*' -not -path '/var/lib/apt/*'").split()
    assert left == [str(guest.STATE)], left
