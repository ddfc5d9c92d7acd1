#!/usr/bin/env python3
"""Format, clang-tidy and scripts. Called by ./dev lint.

clang-tidy reads the sources that git says differ from --base (default: all of them) and stops taking new ones when
--seconds are over; what it did not reach is said. Exit code 1 if anything is wrong.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
JOBS = os.cpu_count() or 1


def git_files(*patterns, base=None):
    command = ["git", "ls-files", *patterns] if base is None else ["git", "diff", "--name-only", "--diff-filter=AM", base,
                                                                   "--", *patterns]
    out = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    return [name for name in out.splitlines() if (ROOT / name).exists()]


def report(name, command, files):
    """Runs COMMAND over FILES at once; true if it found nothing."""
    if not files:
        return True
    done = subprocess.run([*command, *files], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(f"{'ok  ' if done.returncode == 0 else 'FAIL'} {name} ({len(files)} files)", flush=True)
    if done.returncode != 0:
        print(done.stdout)
    return done.returncode == 0


def tidy_order(files, build):
    """The sources that the build compiles: the shipped ones first, those that hold privilege before the others."""
    compiled = {os.path.relpath(os.path.join(entry["directory"], entry["file"]), ROOT)
                for entry in json.loads((build / "compile_commands.json").read_text())}
    rank = {folder: place for place, folder in enumerate(
        ["runtime", "agent", "os", "wire", "netns", "images", "proxy", "sessions", "api", "cli", "tests"])}
    return sorted((name for name in files if name in compiled), key=lambda name: rank.get(name.split("/")[0], 99))


def tidy_one(name, build, deadline):
    if time.monotonic() > deadline:
        return name, None, ""
    done = subprocess.run(["clang-tidy-19", "-p", str(build), "--quiet", "--extra-arg=-Wno-unknown-warning-option",
                           "--extra-arg=-Wno-unused-command-line-argument", name],
                          cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return name, done.returncode, done.stdout


def tidy(files, build, seconds):
    deadline = time.monotonic() + seconds
    good, left = True, []
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for name, code, text in pool.map(lambda name: tidy_one(name, build, deadline), files):
            if code is None:
                left.append(name)
            elif code != 0:
                good = False
                print(f"FAIL clang-tidy {name}\n{text}", flush=True)
    print(f"{'ok  ' if good else 'FAIL'} clang-tidy ({len(files) - len(left)} of {len(files)} files)")
    if left:
        print(f"     not reached within {seconds} s: {' '.join(left)}")
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--base", help="only sources that differ from this commit")
    parser.add_argument("--seconds", type=int, default=240, help="time box of clang-tidy")
    options = parser.parse_args()
    cpp = git_files("*.cpp", "*.hpp", base=options.base)
    scripts = ["dev", ".ci/run", *git_files("*.sh")]
    results = [
        report("clang-format", ["clang-format-19", "--dry-run", "--Werror"], cpp),
        report("shellcheck", ["shellcheck"], scripts),
        report("pyflakes", ["/usr/bin/python3", "-m", "pyflakes"], git_files("*.py")),
        tidy(tidy_order([name for name in cpp if name.endswith(".cpp")], options.build), options.build, options.seconds),
    ]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
