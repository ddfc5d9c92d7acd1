"""The check for leaks itself: what it must see, and what it must not take for one."""
import io
import os
import signal
import subprocess

import pytest

import inventory


@pytest.fixture
def waited_for():
    """waited_for(): a pidfd of a new process, and the process."""
    made = []

    def make():
        process = subprocess.Popen(["sleep", "infinity"])
        made.append((io.FileIO(os.pidfd_open(process.pid)), process))
        return made[-1]

    yield make
    for fd, process in made:
        process.kill()
        process.wait()
        fd.close()


def pidfds():
    return set(inventory._pidfds([os.getpid()]))


def test_a_pidfd_that_has_gone_since_is_no_leak(waited_for):
    """As when a snapshot is taken while the broker deletes what an earlier test left in the trash."""
    gone, _ = waited_for()
    waited_for()
    before = pidfds()
    gone.close()
    assert pidfds() - before == set() and len(before) == len(pidfds()) + 1


def test_a_new_pidfd_is_one_though_another_has_gone(waited_for):
    gone, _ = waited_for()
    before = pidfds()
    gone.close()
    _, process = waited_for()
    assert pidfds() - before == {f"{os.getpid()} waits for {process.pid}"}


def test_a_pidfd_whose_process_is_dead_is_one(waited_for):
    before = pidfds()
    _, process = waited_for()
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(pidfds() - before) == 1
