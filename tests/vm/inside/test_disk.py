"""What a session may write to the disk, by project quota, and a floor of free disk."""
import pathlib

import apparmor
import guest
from guest import MIB

BOUND = 64 * MIB


def used_by_state():
    return int(guest.sh("df -B1 --output=used /var/lib/daiv-sandbox").split()[-1])


def test_a_session_cannot_write_more_than_its_bound(_):
    guest.restart(DAIV_SANDBOX_SESSION_DISK_BYTES=BOUND)
    try:
        api = guest.api()
        full, other = api.create(guest.BUSYBOX), api.create(guest.BUSYBOX)
        before = used_by_state()
        output, code = api.run_one(full, "dd if=/dev/zero of=/workspace/repo/big bs=1M count=100")
        assert code != 0 and "quota" in output.lower(), output
        # Its other directories, another name, another owner's files: all one bound.
        assert api.run_one(full, "dd if=/dev/zero of=/tmp/more bs=1M count=10")[1] != 0
        assert used_by_state() - before < BOUND + 8 * MIB
        assert api.run_one(other, "dd if=/dev/zero of=/tmp/some bs=1M count=40")[1] == 0, "one bound for two sessions"
        assert api.run_one(full, "rm /workspace/repo/big && dd if=/dev/zero of=/tmp/more bs=1M count=10")[1] == 0
        api.close(full)  # kept over a reopen
        assert api.run_one(full, "dd if=/dev/zero of=/workspace/repo/big bs=1M count=100")[1] != 0
        for session in (full, other):
            api.close(session, force=True)
    finally:
        guest.restart()


def test_a_session_cannot_make_more_files_than_its_bound(_):
    guest.restart(DAIV_SANDBOX_SESSION_DISK_BYTES=4 * MIB)
    try:
        api = guest.api()
        full, other = api.create(guest.BUSYBOX), api.create(guest.BUSYBOX)
        command = "i=0; while [ $i -lt 6000 ] && true >/tmp/e$i; do i=$((i+1)); done 2>/dev/null; echo $i"
        made = int(api.run_one(full, command)[0])
        assert 3900 < made <= 4096, made
        assert api.run_one(other, "touch /tmp/one") == ("", 0), "one bound for two sessions"
        assert api.run_one(full, "rm -r /tmp/e* && touch /tmp/one")[1] == 0
        for session in (full, other):
            api.close(session, force=True)
    finally:
        guest.restart()


def test_without_quota_a_bound_is_refused(_):
    # The bound is asked of a state directory on a file system that has no quota: the guest's root.
    # As docs/operations.md says how to have it elsewhere.
    guest.sh("install -d -m 0711 /var/lib/other")
    drop_in = pathlib.Path(f"/etc/systemd/system/{guest.FRONT}.d/elsewhere.conf")
    drop_in.parent.mkdir(exist_ok=True)
    drop_in.write_text("[Service]\nReadWritePaths=/var/lib/other\n")
    guest.sh("systemctl daemon-reload")
    try:
        with apparmor.state_directory("/var/lib/other"):
            guest.restart(DAIV_SANDBOX_SESSION_DISK_BYTES=BOUND, DAIV_SANDBOX_STATE_DIR="/var/lib/other")
            assert "prjquota" in guest.sh("daiv-sandbox doctor", check=False)
            guest.sh("daiv-sandbox load /share/busybox.tar")
            status, body = guest.create_raw(guest.BUSYBOX)
            assert status == 503 and b"prjquota" in body, (status, body)
            guest.sh(f"systemctl stop {guest.FRONT}")
    finally:
        drop_in.unlink()
        guest.sh("systemctl daemon-reload")
        guest.restart()


def test_under_the_floor_new_sessions_are_refused_and_old_ones_go_on(_):
    api = guest.api()
    session = api.create(guest.BUSYBOX)
    guest.restart(DAIV_SANDBOX_MIN_FREE_DISK_BYTES=1 << 45)
    try:
        api = guest.api()
        status, body = guest.create_raw(guest.BUSYBOX)
        assert status == 503 and b"MIN_FREE_DISK" in body, (status, body)
        assert api.run_one(session, "echo alive") == ("alive\n", 0)
        api.close(session)
        assert api.run_one(session, "echo again") == ("again\n", 0), "an existing one is reopened"
        api.close(session, force=True)
    finally:
        guest.restart()
