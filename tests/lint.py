#!/usr/bin/env python3
"""Format, clang-tidy and scripts. Called by ./dev lint.

clang-tidy reads the sources that git says differ from --base, or include a header that does (default: all; --shipped leaves
out those of the tests), and stops taking new ones when --seconds are over; what it did not reach is said. Exit code 1 if
anything is wrong.
"""
import argparse
import pathlib
import subprocess
import sys

import tidy

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHIPPED = ["runtime", "agent", "os", "wire", "netns", "images", "proxy", "sessions", "sentry", "api", "cli"]


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
    known = tidy.compiled(build)
    rank = {folder: place for place, folder in enumerate(SHIPPED)}
    return sorted((name for name in files if name in known), key=lambda name: rank.get(name.split("/")[0], 99))


def affected(sources, changed):
    """Of SOURCES, those that are among CHANGED or include a header that is."""
    paths = {ROOT / name for name in changed}
    return [source for source in sources if paths.intersection(tidy.ingredients([source]))]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build-tidy", help="configured tree")
    parser.add_argument("--base", help="only sources that differ from this commit")
    parser.add_argument("--shipped", action="store_true", help="clang-tidy without the sources of the tests")
    parser.add_argument("--seconds", type=int, default=1200, help="time box of clang-tidy")
    options = parser.parse_args()
    cpp = git_files("*.cpp", "*.hpp", base=options.base)
    sources = [name for name in git_files("*.cpp") if not (options.shipped and name.startswith("tests/"))]
    if options.base:
        sources = affected(sources, cpp)
    scripts = ["dev", ".ci/run", *git_files("*.sh")]
    results = [
        report("clang-format", ["clang-format-19", "--dry-run", "--Werror"], cpp),
        report("shellcheck", ["shellcheck"], scripts),
        report("pyflakes", ["/usr/bin/python3", "-m", "pyflakes"], git_files("*.py")),
        tidy.run(tidy_order(sources, options.build), options.build, options.seconds),
    ]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
