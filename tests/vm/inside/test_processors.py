"""What a session with `cpus` sees of a machine with several processors, and what it can take of them."""
import os

import guest
from guest import Session

ASK = ("nproc; python3 -c 'import os; print(os.cpu_count(), len(os.sched_getaffinity(0)))'; grep -c ^processor /proc/cpuinfo; "
       "cat /sys/devices/system/cpu/online")
AFFINITY = "python3 -c 'import os; print(*os.sched_getaffinity(0))'"
WIDEN = "python3 -c 'import os; os.sched_setaffinity(0, range({})); print(*os.sched_getaffinity(0))'"


def need_processors(count):
    if (os.cpu_count() or 1) < count:
        raise guest.Skip(f"fewer than {count} processors")


def test_a_session_sees_as_many_processors_as_its_limit(_):
    need_processors(3)
    for cpus, count, online in ((1, 1, "0"), (1.5, 2, "0-1"), (2, 2, "0-1"), (None, 3, "0-2")):
        with Session(**({"cpus": cpus} if cpus else {})) as session:
            assert session.output(ASK).split() == [*[str(count)] * 4, online], cpus


def test_sessions_are_spread_over_the_processors(_):
    need_processors(3)
    with Session(cpus=1) as one, Session(cpus=1) as two, Session(cpus=1) as three:
        taken = [session.output(AFFINITY).split() for session in (one, two, three)]
        assert sorted(taken) == [["0"], ["1"], ["2"]]


def test_a_command_cannot_take_more_processors_than_its_limit(_):
    need_processors(3)
    guest.need_controller("cpuset")
    for cpus in (1, 1.5):
        with Session(cpus=cpus) as session:
            given, widened = session.output(AFFINITY), session.output(WIDEN.format(os.cpu_count()))
            assert widened == given, (cpus, given, widened)


def test_input_and_output_are_shared_fairly(_):
    with Session() as session:
        file = session.cgroup / "io.weight"
        if not file.exists():
            raise guest.Skip("no io.weight: neither iocost nor bfq in the kernel")
        assert file.read_text() == "default 100\n"
