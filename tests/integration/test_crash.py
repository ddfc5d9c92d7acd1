"""State on disk and in the kernel agree after any crash: trials with a SIGKILL at a random moment of each operation.

Each trial prints its seed; DAIV_SANDBOX_TEST_SEED=N repeats it alone.
"""
import os
import random

import pytest

import daemon as daemons
from crash_trial import DAEMON_VICTIMS, SANDBOX_VICTIMS, Host, Trial
from egress_fixtures import make_ca

TRIALS, SOAK_TRIALS = 6, 80  # of each victim
VICTIMS = [*DAEMON_VICTIMS, *SANDBOX_VICTIMS]


@pytest.fixture(scope="module")
def host(build, busybox):
    daemon = daemons.Daemon(build)
    daemon.settings.update(make_ca(build, daemon.directory))
    with daemon:
        yield Host(daemon, busybox)


def seeds(count):
    given = os.environ.get("DAIV_SANDBOX_TEST_SEED")
    return [int(given)] if given else [random.SystemRandom().randrange(2**32) for _ in range(count)]


def run_trials(host, victim, count):
    chosen, struck = seeds(count), 0
    # More where none fell into an operation: such trials show nothing.
    for number, seed in enumerate([*chosen, *seeds(10 * count)]):
        if number >= len(chosen) and (struck or len(chosen) == 1):
            break
        trial = Trial(host, seed, victim)
        print(f"DAIV_SANDBOX_TEST_SEED={seed}: {trial}")
        struck += trial.run()
    assert struck or len(chosen) == 1, "no kill fell into an operation"
    print(f"{struck} kills fell into an operation")


@pytest.mark.parametrize("victim", VICTIMS)
def test_a_kill_at_a_random_moment(host, victim):
    run_trials(host, victim, TRIALS)


@pytest.mark.soak
@pytest.mark.parametrize("victim", VICTIMS)
def test_hundreds_of_kills_at_random_moments(host, victim):
    run_trials(host, victim, SOAK_TRIALS)
