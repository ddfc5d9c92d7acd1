"""Limits of a session on the controllers of cgroups v2."""
import threading
import time

import guest
from guest import MIB

HOG = "python3 -c 'bytearray(400 << 20)'"


class Session:
    """A session that is removed at the end, with a client of its own."""

    def __init__(self, image=guest.DEBIAN, **create):
        self.api = guest.api()
        self.id = self.api.create(image, **create)
        self.cgroup = guest.cgroup(self.id)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        guest.api().close(self.id, force=True)
        assert not self.cgroup.exists(), "the session's cgroup is left"

    def run(self, command, **more):
        return self.api.run_one(self.id, command, **more)

    def output(self, command):
        return self.api.output(self.id, command)


def test_limits_are_in_the_kernels_files(_):
    with Session(memory_bytes=100 * MIB, cpus=0.5) as session:
        read = {name: (session.cgroup / name).read_text().split() for name in ("cpu.max", "pids.max", "commands/memory.max")}
        assert read == {"cpu.max": ["50000", "100000"], "pids.max": ["4096"], "commands/memory.max": [str(100 * MIB)]}
        swap = session.cgroup / "memory.swap.max"
        assert not swap.exists() or swap.read_text() == "0\n"


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
        # A pool that starts a killed worker anew would hang for ever.
        output, code = session.run("(sleep 600 & " + HOG + "); echo $?; sleep 600", timeout=120)
        assert code == 137 and "memory limit" in output, (output, code)
        guest.wait_for("the command's processes are gone", lambda: session.output(
            "ls /proc | grep -c '^[0-9]'; cat /proc/[0-9]*/comm").count("sleep") == 0)


def test_background_processes_of_another_command_survive(_):
    with Session(memory_bytes=100 * MIB) as session:
        session.run("nohup sleep 1000 >/dev/null 2>&1 &")
        assert session.run(HOG)[1] == 137
        assert "sleep" in session.output("cat /proc/[0-9]*/comm")


def test_two_commands_share_the_limit(_):
    with Session(memory_bytes=150 * MIB) as session:
        session.run("nohup python3 -c 'import time; a = bytearray(90 << 20); time.sleep(1000)' >/dev/null 2>&1 &")
        events = session.cgroup / "commands/memory.events"
        guest.wait_for("the first command's memory", lambda: int((session.cgroup / "memory.current").read_text()) > 80 * MIB)
        session.run("python3 -c 'a = bytearray(90 << 20)'")
        assert guest.keyed(events)["oom_kill"] > 0
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
            "python3 -c 'import time\nw = time.monotonic()\nwhile time.process_time() < 1: pass\n"
            "print(time.process_time(), time.monotonic() - w)'").split())
        assert used / wall < 0.35, (used, wall)
        assert guest.keyed(session.cgroup / "cpu.stat")["nr_throttled"] > 5


def test_processes_are_bounded_and_the_session_lives_on(_):
    guest.restart(DAIV_SANDBOX_PIDS_LIMIT=60)
    try:
        with Session(guest.BUSYBOX) as session:
            # The inner shell ends when it can't fork; the outer one needs no process to end the rest.
            session.run("sh -c 'i=0; while [ $i -lt 100 ]; do sleep 1000 & i=$((i+1)); done'; kill -9 -1", timeout=300)
            assert guest.keyed(session.cgroup / "pids.events")["max"] > 0
            assert session.run("echo alive") == ("alive\n", 0)
    finally:
        guest.restart()


def test_a_fork_bomb_stops_nobody_else(_):
    with Session(guest.BUSYBOX) as bomb, Session(guest.BUSYBOX) as other:
        thread = threading.Thread(target=bomb.run, args=("f() { f | f & f; }; f",), kwargs={"timeout": 10})
        thread.start()
        guest.wait_for("the bomb", lambda: int((bomb.cgroup / "pids.current").read_text()) > 200)
        assert other.run("echo alive") == ("alive\n", 0)
        thread.join()
        assert bomb.run("echo alive") == ("alive\n", 0)


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
