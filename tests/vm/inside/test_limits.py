"""Limits of a session on the controllers of cgroups v2."""
import os
import signal
import threading
import time

import guest
import oci
from guest import MIB, Session

# Reading fills dd's buffer within one system call: page faults of a program are slow in this guest.
HOG = "dd if=/dev/zero of=/dev/null bs=200M count=1"


def test_limits_are_in_the_kernels_files(_):
    with Session(memory_bytes=100 * MIB, cpus=0.5) as session:
        read = {name: (session.cgroup / name).read_text().split() for name in ("cpu.max", "pids.max", "commands/memory.max")}
        assert read == {"cpu.max": ["50000", "100000"], "pids.max": ["4096"], "commands/memory.max": [str(100 * MIB)]}


def test_a_limited_session_does_not_swap(_):
    guest.sh("fallocate -l 256M /swap && chmod 600 /swap && mkswap /swap && swapon /swap")
    try:
        with Session(memory_bytes=40 * MIB) as session:
            assert (session.cgroup / "memory.swap.max").read_text() == "0\n"
            assert session.run(HOG)[1] == 137
    finally:
        guest.sh("swapoff /swap && rm /swap")


def test_a_command_above_the_memory_limit_is_killed_and_says_so(_):
    with Session(memory_bytes=100 * MIB) as session:
        agent = (session.cgroup / "agent/cgroup.procs").read_text()
        output, code = session.run("echo first; " + HOG + "; echo never")
        assert code == 137, (output, code)
        assert output.splitlines()[0] == "first" and "never" not in output, output
        assert output.endswith(f"Command killed: out of memory (the session's memory limit is {100 * MIB} bytes)\n"), output
        assert session.run("echo alive") == ("alive\n", 0)
        assert session.run("python3 -c 'print(len(bytearray(20 << 20)))'") == ("20971520\n", 0)
        assert (session.cgroup / "agent/cgroup.procs").read_text() == agent, "another agent"


def test_a_killed_child_takes_its_whole_command_with_it(_):
    with Session(memory_bytes=100 * MIB) as session:
        before = guest.processes(session.id)
        # A pool that starts a killed worker anew would hang for ever.
        output, code = session.run("(sleep 600 & " + HOG + "); echo $?; sleep 600", timeout=120)
        assert code == 137 and "memory limit" in output, (output, code)
        guest.wait_for("the command's processes are gone", lambda: guest.processes(session.id) == before)


def test_background_processes_of_another_command_survive(_):
    with Session(memory_bytes=100 * MIB) as session:
        session.run("nohup sleep 1000 >/dev/null 2>&1 &")
        assert session.run(HOG)[1] == 137
        assert "sleep" in session.output("cat /proc/[0-9]*/comm")


def test_two_commands_share_the_limit(_):
    with Session(memory_bytes=100 * MIB) as session:
        # It holds what it has read for as long as nobody takes it.
        session.run("nohup sh -c 'dd if=/dev/zero bs=60M count=1 | sleep 1000' >/dev/null 2>&1 &")
        guest.wait_for("the first command's memory", lambda: int((session.cgroup / "memory.current").read_text()) > 60 * MIB)
        session.run("dd if=/dev/zero of=/dev/null bs=60M count=1")
        assert guest.keyed(session.cgroup / "commands/memory.events")["oom_kill"] > 0
        assert session.run("echo alive") == ("alive\n", 0)


def test_what_lies_in_shm_counts(_):
    with Session(memory_bytes=40 * MIB) as session:
        output, code = session.run("head -c 60M /dev/zero > /dev/shm/full")
        assert code == 137 and "memory limit" in output, (output, code)
        assert session.api.status(session.id) in (200, 204)
        guest.api().close(session.id)  # a warm close empties it
        assert session.run("echo alive") == ("alive\n", 0)


def test_processors_are_throttled(_):
    with Session(cpus=0.25) as session:
        used, wall = map(float, session.output(
            "python3 -c 'import time\nw, u = time.monotonic(), time.process_time()\nwhile time.process_time() < u + 1: pass\n"
            "print(time.process_time() - u, time.monotonic() - w)'").split())
        assert used / wall < 0.35, (used, wall)
        assert guest.keyed(session.cgroup / "cpu.stat")["nr_throttled"] > 5


def kill_commands(session):
    for file in (session.cgroup / "commands").rglob("cgroup.procs"):
        for pid in file.read_text().split():
            os.kill(int(pid), signal.SIGKILL)


def test_processes_are_bounded_and_disturb_no_other_session(_):
    guest.restart(DAIV_SANDBOX_PIDS_LIMIT=60)
    try:
        with Session(guest.BUSYBOX) as full, Session(guest.BUSYBOX) as other:
            # The inner shell ends when it can't fork; the outer one goes on without another process.
            command = "sh -c 'i=0; while [ $i -lt 100 ]; do sleep 1000 & i=$((i+1)); done'; while :; do :; done"
            result = []
            thread = threading.Thread(target=lambda: result.append(full.run(command)))
            thread.start()
            # Counted where the fork was tried, and in newer kernels where the limit is.
            guest.wait_for("the limit", lambda: any(guest.keyed(file)["max"] for file in full.cgroup.rglob("pids.events")))
            assert other.run("echo alive") == ("alive\n", 0)
            assert len(guest.processes(full.id)) <= 60
            kill_commands(full)
            thread.join()
            output, code = result[0]
            assert code == 137 and "can't fork" in output, (output, code)
            assert full.run("echo alive") == ("alive\n", 0)
    finally:
        guest.restart()


def test_the_least_limit_of_processes_is_enough_for_each_operation(_):
    guest.restart(DAIV_SANDBOX_PIDS_LIMIT=8)
    try:
        with Session(guest.BUSYBOX) as session:
            api = guest.api()
            for _ in range(2):  # the second time after a reopen
                assert api.fs(session.id, "ls", path="/workspace")["error"] is None
                assert api.fs(session.id, "grep", path="/workspace", pattern="none")["error"] is None
                assert session.run("echo one | cat | cat") == ("one\n", 0)
                api.close(session.id)
            assert api.seed(session.id, oci.tar(oci.entry("seeded", "x")))[0] == 204
    finally:
        guest.restart()


def test_a_kill_takes_the_whole_cgroup(_):
    with Session() as session:
        session.run("setsid nohup sh -c 'trap \"\" TERM; while :; do sleep 1; done' >/dev/null 2>&1 &")
        started = time.monotonic()
        guest.api().close(session.id, force=True)
        assert not session.cgroup.exists(), time.monotonic() - started


def test_a_session_sees_its_memory_and_processors(_):
    with Session(memory_bytes=128 * MIB, cpus=0.5) as session:
        assert session.output("nproc; python3 -c 'import os; print(os.cpu_count())'").split() == ["1", "1"]
        assert session.output("grep -c ^processor /proc/cpuinfo; cat /sys/devices/system/cpu/online").split() == ["1", "0"]
        assert f"MemTotal: {128 * 1024} kB" in " ".join(session.output("cat /proc/meminfo").split())
        assert session.output("cat /sys/fs/cgroup$(sed s/0:://  /proc/self/cgroup)/memory.max").split() == [str(128 * MIB)]
