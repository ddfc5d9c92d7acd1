"""A shortened soak; ./dev bench --soak runs one of any length."""
import random

import pytest

import soak
from egress_fixtures import make_ca

SECONDS, SESSIONS = 30, 60


@pytest.mark.soak
def test_a_soak_has_no_error_no_leak_and_no_growth(build, own_daemon, busybox, tmp_path):
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    daemon = own_daemon(**make_ca(build, tmp_path))
    rows, faults = soak.soak(daemon, busybox, SESSIONS, SECONDS, seed)
    for row in rows:
        print(*row, sep=" | ")
    assert list(faults) == []
