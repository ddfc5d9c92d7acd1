"""Runs in the guest, once for each of its boots: the tests of that boot, and a result after each of them."""
import importlib
import json
import pathlib
import re
import sys
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import guest  # noqa: E402

OPTIONS = json.loads((guest.SHARE / "options.json").read_text())
RESULT = guest.SHARE / "result.json"
STATE = pathlib.Path("/var/lib/guest-tests.json")  # what a boot leaves to the next
# The modules of each boot, in order: each finds what the ones before it left.
BOOTS = [["test_newcomer", "test_apparmor", "test_service", "test_limits", "test_processors", "test_disk", "test_network",
          "test_contract", "test_apparmor_denials", "test_before_reboot"],
         ["test_reboot", "test_apparmor_denials", "test_removal"]]
# By all that follow: they always run.
NEEDED = {"test_the_package_installs_and_runs", "test_images_are_loaded_from_archives", "test_a_session_runs_when_the_host_goes_down"}


def report(results, name, outcome, text):
    results.append({"name": name, "outcome": outcome, "text": text})
    RESULT.with_suffix(".new").write_text(json.dumps(results))
    RESULT.with_suffix(".new").replace(RESULT)


def journal(since):
    return guest.sh(f"journalctl -u 'daiv-sandbox*' --since=@{since:.0f} -n 40 --no-pager -o cat", check=False)


def run_test(test, state):
    """(outcome, text); a machine that has everything gives no reason to skip."""
    started = time.time()
    try:
        test(state)
        return "passed", ""
    except guest.Skip as skip:
        return "failed" if OPTIONS["complete"] else "skipped", str(skip)
    except Exception:
        return "failed", traceback.format_exc() + journal(started)


def run_module(name, state, results):
    """Runs the tests of a module; one that fails and that others need ends the run."""
    module = importlib.import_module(name)
    for test in [value for key, value in vars(module).items() if key.startswith("test_")]:
        if not re.search(OPTIONS["k"], f"{name}: {test.__name__}") and test.__name__ not in NEEDED:
            continue
        started = time.time()
        outcome, text = run_test(test, state)
        print(f"{outcome} {name}: {test.__name__} ({time.time() - started:.1f} s)", flush=True)
        report(results, f"{name.removeprefix('test_')}: {test.__name__}", outcome, text)
        if outcome == "failed" and test.__name__ in NEEDED:
            raise RuntimeError(f"without {test.__name__} the rest says nothing")


def main():
    state = json.loads(STATE.read_text()) if STATE.exists() else {"boot": 0}
    results = json.loads(RESULT.read_text()) if RESULT.exists() else []
    try:
        (guest.SHARE / f"boot-{state['boot']}").mkdir()  # there already if the kernel died and began again
        print(f"boot {state['boot']}: tests begin {pathlib.Path('/proc/uptime').read_text().split()[0]} s after it", flush=True)
        for name in BOOTS[state["boot"]]:
            run_module(name, state, results)
    except Exception:
        report(results, f"guest: boot {state['boot']}", "failed", traceback.format_exc())
        return
    state["boot"] += 1
    STATE.write_text(json.dumps(state))
    if state["boot"] < len(BOOTS):
        pathlib.Path("/run/reboot-wanted").touch()
    else:
        report(results, "guest: ends", "passed", "")


main()
