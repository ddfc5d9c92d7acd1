"""The cases of the contract suite that need a memory controller, where the suite lies beside the checkout."""
import json
import sys

import guest

SUITE = guest.SHARE / "contract"


def needing(controller):
    """AREA/NAME of the cases that need CONTROLLER."""
    return [f"{file.stem}/{case['name']}" for file in sorted((SUITE / "cases").glob("*.json")) for case in json.loads(file.read_text())
            if controller in case.get("needs", [])]


if SUITE.exists():
    def test_the_cases_for_a_memory_controller(_):
        names = needing("memory-controller")
        assert names
        for name in names:
            said = guest.sh(f"{sys.executable} {SUITE}/contract.py http://127.0.0.1:{guest.PORT} {guest.KEY.read_text()} "
                            f"{SUITE}/cases --only {name}")
            assert said.endswith("1 passed, 0 failed\n"), said
