"""Runs in the guest, once for each of its boots: the tests of that boot, and a result after each of them."""
import importlib
import json
import pathlib
import sys
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import guest  # noqa: E402

RESULT = guest.SHARE / "result.json"
STATE = pathlib.Path("/var/lib/guest-tests.json")  # what a boot leaves to the next
# The modules of each boot, in order; the first test of the second boot looks at what the first left.
BOOTS = [["test_service", "test_limits", "test_disk", "test_before_reboot"], ["test_reboot"]]


def report(results, name, outcome, text):
    results.append({"name": name, "outcome": outcome, "text": text})
    RESULT.with_suffix(".new").write_text(json.dumps(results))
    RESULT.with_suffix(".new").replace(RESULT)


def run_module(name, words, state, results):
    module = importlib.import_module(name)
    for test in [value for key, value in vars(module).items() if key.startswith("test_")]:
        if words and words not in test.__name__:
            continue
        started = time.monotonic()
        try:
            test(state)
            outcome, text = "passed", ""
        except Exception:
            outcome, text = "failed", traceback.format_exc() + guest.sh("journalctl -u daiv-sandbox -n 20 --no-pager -o cat", check=False)
        print(f"{outcome} {name}: {test.__name__} ({time.monotonic() - started:.1f} s)", flush=True)
        report(results, f"{name.removeprefix('test_')}: {test.__name__}", outcome, text)


def main():
    state = json.loads(STATE.read_text()) if STATE.exists() else {"boot": 0}
    results = json.loads(RESULT.read_text()) if RESULT.exists() else []
    words = json.loads((guest.SHARE / "options.json").read_text())["k"]
    try:
        if state["boot"] == 0:
            guest.install()
        guest.wait_for("the service answers", guest.answers, guest.START_SECONDS)
        for name in BOOTS[state["boot"]]:
            run_module(name, words, state, results)
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
