#!/usr/bin/env python3
"""Runs the contract suite as it is against a daemon of the build tree with the project's images.

usage: contract.py --build DIR --suite DIR [--json OUT] [--only WORDS]

The two images are loaded as docker-archives under the names that the suite expects. --json: a list of
{name, outcome, text}. Exit code 1 if a case failed.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import daemon as daemons
import hierarchy
import images
import oci

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The kernel of CI's machine has no memory controller in its cgroups v2 hierarchy.
NEEDS_MEMORY = "memory-controller"
PREFIXES = ["/api/v1", ""]
# Cases that contradict what is required of this project, each with the one difference that is meant. A timed-out
# command keeps what it printed so far, which this case has dropped.
CONTRADICTED = {"run/timeout": ['body.results[1].output: expected "Command timed out after 1s", '
                                r'got "partial\nCommand timed out after 1s"']}
REFERENCES = {"debian": "debian:bookworm-slim", "busybox": "busybox:latest"}


def load_images(daemon):
    for name, reference in REFERENCES.items():
        with tempfile.NamedTemporaryFile(suffix=".tar") as archive:
            oci.save_docker_archive(images.get(name, ROOT / "build" / "images"), archive.name, reference)
            done = daemon.cli("load", archive.name)
            if done.returncode != 0:
                raise RuntimeError(f"load {reference}: {done.stdout}{done.stderr}")


def run_suite(daemon, suite, prefix, without, only):
    """[{name, outcome, text}] of one run of the suite, from the summary that its runner writes."""
    with tempfile.NamedTemporaryFile() as summary:
        command = [sys.executable, str(suite / "contract.py"), f"http://127.0.0.1:{daemon.port}{prefix}", daemons.KEY,
                   str(suite / "cases"), "--json", summary.name, *(["--without", without] if without else []),
                   *(["--only", only] if only else [])]
        subprocess.run(command)
        return [result(prefix, case) for case in json.loads(pathlib.Path(summary.name).read_text())["cases"]]


def result(prefix, case):
    name = f"{prefix or '/'} {case['name']}"
    if case["skipped"]:
        return {"name": name, "outcome": "skipped", "text": case["skipped"]}
    problems = [problem for failure in case["failures"] for problem in failure["problems"]]
    if problems and problems == CONTRADICTED.get(case["name"]):
        return {"name": name, "outcome": "skipped", "text": "the case drops what a timed-out command printed"}
    text = "\n".join(f"{failure['step']}\n" + "\n".join(f"  {problem}" for problem in failure["problems"][:10])
                     for failure in case["failures"])
    return {"name": name, "outcome": "failed" if case["failures"] else "passed", "text": text}


def structure(value, are_names=False):
    """An OpenAPI document without its prose. What names fields and schemas is no prose, whatever it is called."""
    if isinstance(value, list):
        return [structure(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {name: structure(member, name in ("properties", "schemas")) for name, member in value.items()
            if are_names or name not in ("description", "summary", "title")}


def compare(place, expected, got):
    """What differs, one line each."""
    if isinstance(expected, dict) and isinstance(got, dict):
        for name in sorted({*expected, *got}):
            yield from compare(f"{place}/{name}", expected.get(name), got.get(name))
    elif expected != got:
        yield f"{place}: expected {expected!r}, got {got!r}"


def interface_case(daemon, suite):
    """Whether the interface that the daemon describes is the suite's: paths, methods and schemas."""
    expected = json.loads((suite / "openapi.json").read_text())
    got = daemon.api().call("GET", "/openapi.json")
    problems = [problem for part in ("openapi", "servers", "paths", "components")
                for problem in compare(part, structure(expected[part]), structure(got[part]))]
    return {"name": "openapi.json", "outcome": "failed" if problems else "passed", "text": "\n".join(problems[:20])}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--suite", type=pathlib.Path, required=True)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--only")
    options = parser.parse_args()
    without = "" if "memory" in hierarchy.controllers() else NEEDS_MEMORY
    with daemons.Daemon(options.build.resolve()) as daemon:
        load_images(daemon)
        # The same answers are due at the root and under DAIV_SANDBOX_API_V1_STR.
        results = [case for prefix in PREFIXES for case in run_suite(daemon, options.suite, prefix, without, options.only)]
        results.append(interface_case(daemon, options.suite))
    if options.json:
        options.json.write_text(json.dumps(results))
    return 1 if not results or any(result["outcome"] == "failed" for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
