"""The programs of a configured tree, and the results of those that are unit tests."""
import collections
import concurrent.futures
import functools
import json
import os
import pathlib
import re
import subprocess
import tempfile
import xml.etree.ElementTree as xml

ROOT = pathlib.Path(__file__).resolve().parent.parent
JOBS = os.cpu_count() or 1
UNIT_TIMEOUT = 300

# outcome: passed, failed, skipped; again: for a failed test, a function that runs it by itself and yields results
Result = collections.namedtuple("Result", "part name outcome text again", defaults=[None])


def tail(text, lines=60):
    return "\n".join(text.splitlines()[-lines:])


def introspect(directory, what):
    out = subprocess.run(["meson", "introspect", f"--{what}", str(directory)], stdout=subprocess.PIPE, check=True).stdout
    return json.loads(out)


def unit_programs(directory):
    """The test programs, and what they say they need."""
    tests = introspect(directory, "tests")
    needed = {name for test in tests for name in test.get("depends", [])}
    return sorted({test["cmd"][0] for test in tests} |
                  {target["filename"][0] for target in introspect(directory, "targets") if target["id"] in needed})


def daemon_programs(directory):
    """The programs of the daemon, with what a test build has beside them."""
    return [target["filename"][0] for target in introspect(directory, "targets")
            if target["type"] == "executable" and target["name"].startswith("daiv-sandbox")]


def fuzz_programs(directory):
    return [target["filename"][0] for target in introspect(directory, "targets")
            if target["type"] == "executable" and target["defined_in"].startswith(str(ROOT / "tests" / "fuzz"))]


def parse_report(report):
    """The root of an XML report. Messages of failed tests may hold bytes that no XML has."""
    text = report.read_bytes().decode(errors="replace")
    return xml.fromstring(re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text))


def gtest_results(part, test, report, done):
    """What a gtest program reported. A crash is a failure of the test that ran then, which the report does not have."""
    name = pathlib.Path(test["cmd"][0]).name
    seen_failure = False
    if report.exists() and report.stat().st_size:
        for case in parse_report(report).iter("testcase"):
            full = f"{name}: {case.get('classname')}.{case.get('name')}"
            failures, skip = case.findall("failure"), case.find("skipped")
            if failures:
                seen_failure = True
                filtered = {**test, "cmd": [*test["cmd"], f"--gtest_filter={case.get('classname')}.{case.get('name')}"]}
                yield Result(part, full, "failed", "\n".join(failure.get("message") or "" for failure in failures),
                             functools.partial(run_gtest, part, filtered))
            elif skip is not None or case.get("result") == "skipped":
                yield Result(part, full, "skipped", (skip.get("message") if skip is not None else "") or "no reason given")
            elif case.get("status") == "run":
                yield Result(part, full, "passed", "")
    if done.returncode != 0 and not seen_failure:
        yield Result(part, f"{name}: exit code {done.returncode}", "failed", tail(done.stdout))


def run_gtest(part, test):
    """Runs it as its "prefix" says, if it has one."""
    with tempfile.TemporaryDirectory() as scratch:
        report = pathlib.Path(scratch, "report.xml")
        command = [*test.get("prefix", []), *test["cmd"], f"--gtest_output=xml:{report}"]
        environment = {**os.environ, **test["env"]}
        try:
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  errors="replace", timeout=UNIT_TIMEOUT, cwd=test.get("workdir"))
        except subprocess.TimeoutExpired as expired:
            output = (expired.stdout or b"").decode(errors="replace")
            return [Result(part, test["name"], "failed", f"no end within {UNIT_TIMEOUT} s\n{tail(output)}")]
        return list(gtest_results(part, test, report, done))


def unit_tests(part, directory):
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for results in pool.map(lambda test: run_gtest(part, test), introspect(directory, "tests")):
            yield from results
