"""What sessions leave on the host: nothing. And the inventory that says so sees what is planted."""
import concurrent.futures
import os
import subprocess
import time

import pytest

import conftest
import hierarchy
import inventory
from daemon import RANGE

SESSIONS = 200
EVERYTHING_BUT_DIRECTORIES = ("processes", "cgroups", "mounts", "network namespaces", "sockets", "pidfds")


def test_two_hundred_sessions_leave_no_trace(daemon, api, busybox):
    api.close(api.create(busybox), force=True)  # what the first session makes for all (the pulled image) is no trace of it
    before = inventory.take(daemon)

    def life(number):
        client = daemon.api()
        session = client.create(busybox)
        client.run_one(session, "sleep 600 & echo a > f")
        if number % 3 == 0:
            client.close(session)
        if number % 6 == 0:
            client.run_one(session, "cat f")
        client.close(session, force=True)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(life, range(SESSIONS)))
    # Sessions end faster than a disk that discards freed blocks at once can delete what they wrote.
    assert inventory.new_since(daemon, before, conftest.TRASH_SECONDS, without=EVERYTHING_BUT_DIRECTORIES) == {}
    assert inventory.new_since(daemon, before) == {}


def test_an_idle_worker_of_the_broker_holds_nothing_of_a_session(daemon, busybox):
    def life(number):
        client = daemon.api()
        client.close(client.create(busybox, environment={"SECRET": f"hunter{number}"}), force=True)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(life, range(16)))
    until = time.monotonic() + conftest.TRASH_SECONDS  # the one that empties the trash has that open
    while any((held := inventory.held_by_workers(daemon)).values()) and time.monotonic() < until:
        time.sleep(0.1)
    assert held and not any(held.values()), held


def test_two_hundred_sessions_live_at_once(daemon, start, busybox):
    sessions = []
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        sessions += pool.map(lambda _: daemon.api().create(busybox), range(SESSIONS))
        try:
            assert len(set(sessions)) == SESSIONS
            outputs = pool.map(lambda session: daemon.api().run_one(session, "echo alive"), sessions)
            assert set(outputs) == {("alive\n", 0)}
        finally:
            list(pool.map(lambda session: daemon.api().close(session, force=True), sessions))


@pytest.mark.leaves_traces
def test_the_inventory_sees_planted_leaks(own_daemon, monkeypatch):
    monkeypatch.setattr(inventory, "SETTLE_SECONDS", 0.2)
    daemon = own_daemon()
    before = inventory.take(daemon)
    uid = daemon.uid_start + RANGE + 1000
    process = subprocess.Popen(["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "unshare", "-Urn", "sleep", "60"])
    cgroup = hierarchy.cgroup_root() / f"planted-{os.getpid()}"
    cgroup.mkdir()
    os.chown(cgroup, uid, uid)
    directory = daemon.state / "sessions" / "planted"
    directory.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "planted", directory], check=True)
    try:
        # Both the process and its namespace are there once the program that unshares has run.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        leaked = {}
        for _ in range(20):
            leaked = inventory.new_since(daemon, before)
            if "network namespaces" in leaked:
                break
        assert {"processes", "cgroups", "mounts", "directories", "network namespaces"} <= set(leaked)
    finally:
        subprocess.run(["umount", directory], check=True)
        directory.rmdir()
        cgroup.rmdir()
        process.kill()
        process.wait()
    assert inventory.new_since(daemon, before) == {}
