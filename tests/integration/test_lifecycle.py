"""The lives of a session: a dead front or broker, a warm close and a reopening, a host that booted anew."""
import os
import pathlib
import shutil
import signal
import subprocess
import threading
import time

import pytest

import daemon as daemons
import oci
from crash_trial import SETTLE_SECONDS, check_databases, poll
from egress_fixtures import STANDARD, make_ca
from oci import entry

STOP_SECONDS = 3


def commands(daemon):
    """What the sandboxes of DAEMON run, as lists of words."""
    for pid in daemons.processes_of(daemon.uids):
        try:
            yield pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[:-1]
        except (FileNotFoundError, ProcessLookupError):
            continue


def run_in_background(daemon, session, command):
    """A command that the daemon's death cuts short; returns once it runs."""
    def run():
        try:
            daemon.api().run_one(session, command)
        except (OSError, daemons.http.client.HTTPException):
            pass  # the daemon dies meanwhile, by intent
    thread = threading.Thread(target=run)
    thread.start()
    poll(lambda: command.split() in commands(daemon), f"{command} does not run")
    return thread


def test_a_dead_fronts_commands_are_ended_and_background_processes_live_on(own_daemon, busybox):
    daemon = own_daemon()
    session = daemon.api().create(busybox)
    daemon.api().run(session, "sleep 4001 > /dev/null 2>&1 &")
    thread = run_in_background(daemon, session, "sleep 4002")
    daemon.kill()
    thread.join()
    poll(lambda: ["sleep", "4002"] not in commands(daemon), "the command goes on without its client")
    daemon.start()
    assert ["sleep", "4001"] in commands(daemon)
    daemon.api().close(session, force=True)


def test_a_dead_broker_ends_the_front_and_a_new_start_serves_again(own_daemon, busybox):
    """Whoever supervises the front starts both again (docs/operations.md)."""
    daemon = own_daemon()
    session = daemon.api().create(busybox)
    daemon.api().run(session, "sleep 4003 > /dev/null 2>&1 &")
    for pid in daemon.children():
        os.kill(pid, signal.SIGKILL)
    assert daemon.process.wait(SETTLE_SECONDS) == 1
    daemon.process = None
    daemon.start()
    assert ["sleep", "4003"] in commands(daemon)
    assert daemon.api().output(session, "echo served") == "served\n"
    daemon.api().close(session, force=True)


def test_a_warm_close_asks_first_then_kills_and_keeps_the_session(build, own_daemon, busybox, tmp_path):
    daemon = own_daemon(DAIV_SANDBOX_STOP_TIMEOUT_SECONDS=str(STOP_SECONDS), **make_ca(build, tmp_path))
    api = daemon.api()
    session = api.create(busybox, environment={"MINE": "kept"}, egress=STANDARD)
    assert api.seed(session, repo=oci.tar(entry("seeded", "s")))[0] == 204
    api.run(session, "(trap 'echo asked > asked; exit' TERM; > one; while :; do sleep 0.1; done) > /dev/null 2>&1 &")
    api.run(session, "(trap '' TERM; > two; while :; do sleep 0.1; done) > /dev/null 2>&1 &")
    assert api.output(session, "until test -e one -a -e two; do sleep 0.1; done; echo trapped") == "trapped\n"
    begun = time.monotonic()
    api.close(session)
    assert time.monotonic() - begun >= STOP_SECONDS, "one of them did not go by itself"
    assert list(commands(daemon)) == []
    for _ in range(2):  # reopened by the same daemon, then by the next
        assert api.output(session, "cat seeded asked; echo $MINE; echo ${HTTP_PROXY:+proxied}") == "sasked\nkept\nproxied\n"
        assert api.seed(session, repo=oci.tar(entry("other", "o")))[0] == 409
        assert api.call("PUT", f"/session/{session}/egress/", STANDARD, expect=(200, 204)) is None
        api.close(session)
        daemon.stop()
        daemon.start()
        api = daemon.api()
    api.close(session, force=True)


def boot_anew(daemon):
    """As after a power cut: no process, no cgroup, no mount and nothing of /run is there any more."""
    daemons.kill_leftovers(daemon.uids)
    poll(lambda: not list(daemons.processes_of(daemon.uids)), "processes do not end")
    daemons.remove_cgroup(daemon.cgroup)
    for held in (daemon.runtime / "netns").iterdir():
        subprocess.run(["umount", "--lazy", held], check=True)
    shutil.rmtree(daemon.runtime)


def test_a_host_that_booted_anew_has_stopped_sessions(build, own_daemon, busybox, tmp_path):
    daemon = own_daemon(**make_ca(build, tmp_path))
    api = daemon.api()
    plain, linked, closed = api.create(busybox), api.create(busybox, egress=STANDARD), api.create(busybox)
    for session in (plain, linked, closed):
        api.run(session, "echo kept > keep; sleep 4004 > /dev/null 2>&1 &")
    api.close(closed)
    for pid in [daemon.process.pid, *daemon.children()]:
        os.kill(pid, signal.SIGKILL)
    daemon.process.wait()
    daemon.process = None
    boot_anew(daemon)
    daemon.start()
    assert list(commands(daemon)) == [], "nothing runs before it is asked for"
    api = daemon.api()
    for session in (plain, linked, closed):
        assert api.status(session) == 204
        assert api.output(session, "cat keep") == "kept\n"
    assert api.output(linked, "echo ${HTTP_PROXY:+proxied}") == "proxied\n"
    for session in (plain, linked, closed):
        api.close(session, force=True)
    check_databases(daemon)


def test_the_least_process_limit_is_enough_for_each_operation(own_daemon, busybox):
    daemon = own_daemon(DAIV_SANDBOX_PIDS_LIMIT="8")
    api = daemon.api()
    session = api.create(busybox)
    for _ in range(2):  # the second time after a reopen
        assert api.fs(session, "ls", path="/workspace")["error"] is None
        assert api.fs(session, "grep", path="/workspace", pattern="none")["error"] is None
        assert api.run_one(session, "echo one | cat | cat") == ("one\n", 0)
        api.close(session)
    assert api.seed(session, oci.tar(oci.entry("seeded", "x")))[0] == 204
    api.close(session, force=True)
    daemon.stop()
    daemon.settings["DAIV_SANDBOX_PIDS_LIMIT"] = "7"
    with pytest.raises(RuntimeError, match="DAIV_SANDBOX_PIDS_LIMIT=7"):
        daemon.start()
