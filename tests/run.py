#!/usr/bin/env python3
"""Runs every part of the test suite and counts every test of every part. Called by ./dev test.

Each part yields results (name, outcome, text). A skip has a reason; a part that cannot run at all is a failure. The
last line is "N passed, N failed, N skipped"; exit code 1 if anything failed.

With --second-look, a test that failed by an expectation is run again by itself; where it then passes three times in a
row it counts as passed and is named as unstable, with what it said at first. A crash, a finding of a sanitizer, a part
that cannot run, and more than two unstable tests are failures as ever.
"""
import argparse
import collections
import concurrent.futures
import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from debian_root import command_in
from programs import (JOBS, UNIT_TIMEOUT, Result, daemon_programs, fuzz_programs, introspect, parse_report, run_gtest, tail,
                      unit_programs, unit_tests)

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHON = "/usr/bin/python3"

# The unit tests run under ASan and UBSan by default; --full runs them as released, too.
DEFAULT_PARTS = ["dependencies", "demo", "integration", "contract", "vm", "asan", "attack", "fuzz"]
FULL_PARTS = [*DEFAULT_PARTS, "package", "trixie", "arm64", "crash-points", "unit", "clang", "asan-integration", "tsan", "soak",
              "vm-qemu"]

# Tests of parsers and plans, each with a filter of gtest's: Debian 12's qemu-user has no openat2(2) and no clone3(2).
ARM64_TESTS = {"unit-wire": "*", "unit-agent": "-TrustStore.*",
               "unit-runtime": "-CredentialHelper.*:Directory.*:ResourceViews.CoverTheKernelsFiles"}

UNSTABLE = "unstable"
MAX_UNSTABLE = 2
INTEGRATION_TIMEOUT = 1500
CONTRACT_TIMEOUT = 600
# With the image, on a busy machine; the guest itself is given less.
VM_TIMEOUT = 2400
VM_QEMU_TIMEOUT = 9000  # without KVM it is emulated


# --- building ---------------------------------------------------------------------------------------------------------

GCC = ("gcc", "g++")
CLANG = ("clang-19", "clang++-19")


def build(directory, *options, compiler=GCC, select=None):
    """Configures and builds DIRECTORY with ./dev; the output goes to the terminal.

    SELECT gives the programs to build, once the tree is configured; without it everything is built.
    """
    environment = {**os.environ, "CC": compiler[0], "CXX": compiler[1]}
    configured = subprocess.run([ROOT / "dev", "configure", directory, *options], env=environment)
    targets = [os.path.relpath(program, directory) for program in select(directory)] if select else []
    if configured.returncode != 0 or subprocess.run([ROOT / "dev", "compile", directory, *targets]).returncode != 0:
        raise RuntimeError(f"{directory.name} does not build")


def build_elsewhere(what, command):
    """Runs COMMAND, which builds WHAT, for as long as it takes."""
    if subprocess.run(command).returncode != 0:
        raise RuntimeError(f"{what} does not build")


# --- parts ------------------------------------------------------------------------------------------------------------

def unit(_options):
    directory = ROOT / "build-unit"
    build(directory, "--buildtype=release", "-Doptimization=2", select=unit_programs)
    yield from unit_tests("unit", directory)


def dependencies(options):
    done = subprocess.run([PYTHON, ROOT / "tests/check_dependencies.py", "--build", options.build],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    failed = collections.defaultdict(list)
    for line in done.stdout.splitlines():
        if line.startswith("ok "):
            yield Result("dependencies", line[3:], "passed", "")
        elif line.startswith("FAIL "):
            name, _, why = line[5:].partition(": ")
            failed[name].append(why)
    for name, faults in failed.items():
        yield Result("dependencies", name, "failed", "\n".join(faults))
    if done.returncode not in (0, 1):
        yield Result("dependencies", "check_dependencies.py", "failed", tail(done.stdout))


def run_pytest(part, directory, *arguments):
    def again(case):
        node = f"{case.get('classname').rpartition('.')[2]}.py::{case.get('name')}"
        return functools.partial(report_pytest, part, ROOT / "tests/integration" / node, f"--build={directory}",
                                 *(argument for argument in arguments if argument.startswith("--")))

    yield from report_pytest(part, ROOT / "tests/integration", f"--build={directory}", *arguments, again=again)


def report_pytest(part, *arguments, again=None):
    """The results of a pytest run; AGAIN makes of a failed case what runs it by itself."""
    with tempfile.TemporaryDirectory() as scratch:
        report = pathlib.Path(scratch, "report.xml")
        command = [PYTHON, "-m", "pytest", "-p", "no:cacheprovider", "-q", f"--junitxml={report}", *arguments]
        try:
            code = subprocess.run(command, timeout=INTEGRATION_TIMEOUT, stdout=sys.stderr).returncode
        except subprocess.TimeoutExpired:
            code = f"no end within {INTEGRATION_TIMEOUT} s"
        if not report.exists():
            yield Result(part, "pytest", "failed", f"no report: {code}")
            return
        for case in parse_report(report).iter("testcase"):
            name = f"{case.get('classname').rpartition('.')[2]}: {case.get('name')}"
            bad = case.find("failure") if case.find("failure") is not None else case.find("error")
            skip = case.find("skipped")
            if bad is not None:
                yield Result(part, name, "failed", tail(bad.text or bad.get("message") or ""), again and again(case))
            elif skip is not None:
                yield Result(part, name, "skipped", skip.get("message") or "no reason given")
            else:
                yield Result(part, name, "passed", "")


def integration(options):
    yield from run_pytest("integration", options.build, "-m", "not soak", *(["-k", options.k] if options.k else []))


def demo(options):
    """What the README asks a newcomer to run first."""
    done = subprocess.run([PYTHON, ROOT / "tests/integration/demo.py", "--build", options.build], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", timeout=CONTRACT_TIMEOUT)
    yield Result("demo", "every step of ./dev demo", "passed" if done.returncode == 0 else "failed", tail(done.stdout))


def attack(options):
    """Past holes of others, with the attack shown to succeed where its one defence is off."""
    directory = checked_build()
    sanitizer_environment()
    yield from run_pytest("attack", options.build, f"--attack-build={directory}", "-k", "test_past_holes")


def crash_points(options):
    """The daemon killed at every named point of every phase."""
    directory = checked_build()
    sanitizer_environment()
    yield from run_pytest("crash-points", options.build, f"--attack-build={directory}", "-k", "test_crash_points")


def package(_options):
    """The .deb, made from the objects of the release tree, in a root of a fresh Debian."""
    yield from report_pytest("package", ROOT / "tests/package")


def trixie(_options):
    """The same of Debian 13: compiled there, and installed in a fresh root of it."""
    build_elsewhere("the release tree on Debian 13", command_in("trixie", [ROOT / "dev", "build"]))
    yield from report_pytest("trixie", ROOT / "tests/package", "--suite=trixie")


def run_emulated(qemu, program, *arguments, code):
    done = subprocess.run([*qemu, program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=UNIT_TIMEOUT)
    return Result("arm64", " ".join([program.name, *arguments]), "passed" if done.returncode == code else "failed",
                  tail(done.stdout))


def arm64(_options):
    """The programs by Debian's cross compiler, and what runs without a kernel of that architecture: by qemu-user, which has
    the system calls of this machine's."""
    directory = ROOT / "build-arm64"
    cross = [ROOT / "dev", "cross", "arm64"]
    build_elsewhere("arm64", [*cross, "build.ninja"])
    tests = [test for test in introspect(directory, "tests") if test["name"] in ARM64_TESTS]
    programs = [*daemon_programs(directory), *(test["cmd"][0] for test in tests)]
    build_elsewhere("arm64", [*cross, *(os.path.relpath(program, directory) for program in programs)])
    qemu = command_in("bookworm", ["qemu-aarch64-static"], foreign="arm64")
    yield run_emulated(qemu, directory / "cli/daiv-sandbox", "version", code=0)
    yield run_emulated(qemu, directory / "runtime/daiv-sandbox-broker", code=64)  # it misses its arguments
    for test in tests:
        filtered = [*test["cmd"], f"--gtest_filter={ARM64_TESTS[test['name']]}"]
        yield from run_gtest("arm64", {**test, "cmd": filtered, "prefix": qemu})


def report_program(part, what, timeout, command):
    """The results of a program that writes them as JSON; WHAT names it where it writes none."""
    with tempfile.NamedTemporaryFile() as report:
        try:
            printed = subprocess.run([PYTHON, *command, "--json", report.name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                     text=True, errors="replace", timeout=timeout).stdout
        except subprocess.TimeoutExpired as expired:
            printed = f"no end within {timeout} s\n{(expired.stdout or b'').decode(errors='replace')}"
            yield Result(part, what, "failed", tail(printed))
            return
        text = pathlib.Path(report.name).read_text()
    if not text:
        yield Result(part, what, "failed", tail(printed))
        return
    for case in json.loads(text):
        yield Result(part, case["name"], case["outcome"], case["text"])


def run_guest(part, machine, timeout, options):
    """What needs controllers of cgroups v2, systemd, quota or a reboot, in a guest (tests/vm)."""
    def guest(words):
        command = [ROOT / "tests/vm/guest.py", "--machine", machine, *(["-k", words] if words else [])]
        return report_program(part, "guest", timeout, command)

    for result in guest(options.k):
        of_a_test = not result.name.startswith("guest")  # and not of the guest itself
        yield result._replace(again=functools.partial(guest, re.escape(result.name)) if of_a_test else None)


def vm(options):
    yield from run_guest("vm", "uml", VM_TIMEOUT, options)


def vm_qemu(options):
    """The same with several processors, every controller and AppArmor."""
    yield from run_guest("vm-qemu", "qemu", VM_QEMU_TIMEOUT, options)


def soak(options):
    yield from run_pytest("soak", options.build, "-m", "soak")


def contract(options):
    """The cases recorded from the Docker variant, where the checkout lies beside them."""
    shared = ROOT.parent / "shared" / "contract"
    if not (shared / "contract.py").exists():
        yield Result("contract", "all cases", "skipped", f"no contract suite at {shared}")
        return
    yield from report_program("contract", "all cases", CONTRACT_TIMEOUT,
                              [ROOT / "tests/integration/contract.py", "--build", options.build, "--suite", shared])


# Unoptimised: it compiles several times faster, and what the sanitizers find is the same.
UNOPTIMISED = ["--buildtype=plain", "-Doptimization=0", "-Db_lundef=false", "-Dcpp_args=-g1"]


def checked_build():
    """All programs and tests by the second compiler, under ASan and UBSan, with the switches that turn a single defence
    off for a test, and instrumented for the fuzzers: one build for the parts asan, asan-integration, attack and fuzz."""
    directory = ROOT / "build-checked"
    build(directory, *UNOPTIMISED, "-Db_sanitize=address,undefined", "-Dattack_switches=true", "-Dfuzz=true", compiler=CLANG,
          select=lambda it: [*unit_programs(it), *fuzz_programs(it), *daemon_programs(it)])
    return directory


def sanitizer_environment():
    os.environ["ASAN_OPTIONS"] = "detect_stack_use_after_return=1:abort_on_error=0:exitcode=99"
    os.environ["UBSAN_OPTIONS"] = "halt_on_error=1:print_stacktrace=1"
    os.environ["TSAN_OPTIONS"] = "halt_on_error=1"


def asan(_options):
    sanitizer_environment()
    yield from unit_tests("asan", checked_build())


def asan_integration(options):
    sanitizer_environment()
    yield from run_pytest("asan-integration", checked_build(), "-m", "not soak and not speed",
                          *(["-k", options.k] if options.k else []))


def tsan(_options):
    sanitizer_environment()
    directory = ROOT / "build-tsan"
    build(directory, *UNOPTIMISED, "-Db_sanitize=thread", compiler=CLANG, select=unit_programs)
    yield from unit_tests("tsan", directory)


def clang(_options):
    build(ROOT / "build-clang", "--buildtype=release", "-Doptimization=2", compiler=CLANG)
    yield from unit_tests("clang", ROOT / "build-clang")


def fuzz_one(program, seconds):
    name = pathlib.Path(program).name
    corpus = pathlib.Path(program).parent / "corpus" / name
    corpus.mkdir(parents=True, exist_ok=True)
    seeds = ROOT / "tests" / "fuzz" / "corpus" / name
    command = [program, f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1",
               f"-artifact_prefix={corpus.parent}/{name}-", str(corpus), *([str(seeds)] if seeds.is_dir() else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    runs = re.search(r"stat::number_of_executed_units:\s*(\d+)", done.stdout)
    if done.returncode != 0 or not runs or int(runs.group(1)) == 0:
        return Result("fuzz", name, "failed", tail(done.stdout))
    print(f"fuzz {name}: {runs.group(1)} runs", file=sys.stderr)
    return Result("fuzz", name, "passed", "")


def fuzz(options):
    sanitizer_environment()
    directory = checked_build()
    programs = fuzz_programs(directory)
    if not programs:
        yield Result("fuzz", "targets", "failed", "no fuzz target was built")
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        yield from pool.map(lambda program: fuzz_one(program, options.fuzz_seconds), programs)


PARTS = {"unit": unit, "dependencies": dependencies, "demo": demo, "integration": integration, "contract": contract, "asan": asan,
         "attack": attack, "crash-points": crash_points, "package": package, "trixie": trixie, "arm64": arm64, "fuzz": fuzz,
         "clang": clang, "asan-integration": asan_integration, "tsan": tsan, "soak": soak, "vm": vm, "vm-qemu": vm_qemu}


# --- the whole --------------------------------------------------------------------------------------------------------

def second_look(result):
    """What a failed test is worth that was run again by itself."""
    if result.outcome != "failed" or not result.again:
        return result
    for _ in range(3):
        if {again.outcome for again in result.again()} != {"passed"}:
            return result
    print(f"UNSTABLE {result.part}: {result.name}\n{result.text}", flush=True)
    return result._replace(outcome="passed", text=UNSTABLE)


def run_part(name, options):
    print(f"== {name}", file=sys.stderr, flush=True)
    started = time.monotonic()
    results = []
    try:
        results += PARTS[name](options)
        if not results:
            results.append(Result(name, name, "failed", "no test ran"))
    except (RuntimeError, OSError, subprocess.SubprocessError, ValueError) as error:
        results.append(Result(name, name, "failed", str(error)))
    if options.second_look:
        results = [second_look(result) for result in results]
    counts = collections.Counter(result.outcome for result in results)
    print(f"== {name}: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped "
          f"({time.monotonic() - started:.0f} s)", file=sys.stderr, flush=True)
    for result in results:
        if result.outcome == "failed":
            print(f"FAIL {name}: {result.name}\n{result.text}", flush=True)
    return results


def print_skips(results):
    """One line per reason, so that a reader sees why and how often."""
    reasons = collections.defaultdict(list)
    for result in results:
        if result.outcome == "skipped":
            reasons[f"{result.part}: {result.text.strip()}"].append(result.name)
    for reason, names in reasons.items():
        print(f"skipped {len(names)}: {reason} ({', '.join(names[:3])}{', …' if len(names) > 3 else ''})")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--only", help="comma-separated parts")
    parser.add_argument("-k", help="of the integration tests, those that match")
    parser.add_argument("--second-look", action="store_true", help="run a failed test again by itself")
    parser.add_argument("--fuzz-seconds", type=int, help="per fuzz target (default 60, with --full 600)")
    options = parser.parse_args()
    options.fuzz_seconds = options.fuzz_seconds or (600 if options.full else 60)
    options.parts = options.only.split(",") if options.only else FULL_PARTS if options.full else DEFAULT_PARTS
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f"unknown parts: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    return options


def main():
    options = parse_arguments()
    results = []
    try:
        build(options.build, "--buildtype=release", "-Doptimization=2", "-Dunit_tests=false")
        for part in options.parts:
            results += run_part(part, options)
    except RuntimeError as error:
        results.append(Result("build", "build", "failed", str(error)))
        print(f"FAIL build: {error}")
    print_skips(results)
    unstable = [result.name for result in results if result.text == UNSTABLE]
    if len(unstable) > MAX_UNSTABLE:
        results.append(Result("unstable", "few tests are unstable", "failed", ", ".join(unstable)))
        print(f"FAIL more than {MAX_UNSTABLE} unstable tests: {', '.join(unstable)}")
    counts = collections.Counter(result.outcome for result in results)
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
