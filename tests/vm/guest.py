#!/usr/bin/python3
"""Boots the guest with the project's package and runs the tests of tests/vm/inside in it.

usage: guest.py [--machine uml|qemu] [--package DEB] [--json OUT] [--console FILE] [-k EXPRESSION]

The guest has what CI's machine has not: all its controllers in the hierarchy of cgroups v2, systemd as PID 1, an ext4 with
project quota, reboots. It needs no KVM (machines.py). --json: a list of {name, outcome, text}. Exit code 1 if a test failed.
"""
import argparse
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tests" / "integration"), str(ROOT / "tests" / "package")]

import deb  # noqa: E402
import exposures  # noqa: E402
import guest_image  # noqa: E402
import images  # noqa: E402
import machines  # noqa: E402
import oci  # noqa: E402

# Of tests/integration: the client of the API, servers for it, and what they import.
MODULES = ["daemon", "hierarchy", "registry", "exposures", "fake_registry", "oci", "origins", "origin_server", "egress_fixtures"]
CONTRACT = ROOT.parent / "shared" / "contract"  # not part of the project


def fill_share(share, package, options):
    """What the guest sees at /share: the tests, the package, the images, and a place for the result."""
    shutil.copytree(HERE / "inside", share / "inside", ignore=shutil.ignore_patterns("__pycache__"))
    for module in MODULES:
        shutil.copy(ROOT / "tests" / "integration" / f"{module}.py", share / "inside")
    shutil.copy(package, share / "daiv-sandbox.deb")
    deb.make_newer(package, share / "newer.deb")
    for name, reference in (("busybox", "busybox:latest"), ("debian", "debian:bookworm-slim")):
        image = images.get(name, ROOT / "build" / "images")
        oci.save_docker_archive(image, share / f"{name}.tar", reference)
        oci.save_oci_layout(image, share / f"{name}.layout", reference)
    if CONTRACT.is_dir():
        shutil.copytree(CONTRACT, share / "contract")
    (share / "options.json").write_text(json.dumps({**options, "exposures": exposures.stated()}))
    os.chmod(share, 0o755)


def boot(machine, disk, share, scratch, console):
    """Runs the guest until it ends by itself, and returns what went wrong with that."""
    state = scratch / "state"
    guest_image.make_state_disk(state)
    command = machine.command(disk, state, share, scratch)
    # Its memory, or what it writes to its root, is a file below TMPDIR; whatever it starts is in its group and gone with it.
    guest = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=console, stderr=console, start_new_session=True,
                             env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "TMPDIR": "/dev/shm"})
    try:
        guest.wait(machine.limit_seconds)
    except subprocess.TimeoutExpired:
        return f"no end within {machine.limit_seconds} s"
    finally:
        try:
            os.killpg(guest.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        guest.wait()
    return "" if guest.returncode == 0 else f"the guest ended with {guest.returncode}"


def run(machine, package, words, console_file):
    disk = guest_image.get(ROOT / "build" / "vm", machine, deb.dependencies(package))
    with tempfile.TemporaryDirectory(prefix="daiv-guest-", dir="/var/tmp") as directory:
        scratch = pathlib.Path(directory)
        share = scratch / "share"
        share.mkdir()
        fill_share(share, package, {"k": words, "complete": machine.complete})
        started = time.monotonic()
        with open(console_file or scratch / "console", "w+b") as console:
            fault = boot(machine, disk, share, scratch, console)
            console.seek(0)
            text = console.read().decode(errors="replace")
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(f"guest: {time.monotonic() - started:.0f} s, {used.ru_utime + used.ru_stime:.0f} s of processors with what was before it")
        result = share / "result.json"
        results = json.loads(result.read_text()) if result.exists() else []
    if fault or not results or not any(one["name"] == "guest: ends" for one in results):
        last = "\n".join(text.splitlines()[-80:])
        results.append({"name": "guest: runs to its end", "outcome": "failed", "text": f"{fault}\n{last}"})
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--machine", choices=machines.MACHINES, default="uml")
    parser.add_argument("--package", type=pathlib.Path, help="a .deb that was built before")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--console", type=pathlib.Path, help="where the guest's console is written")
    parser.add_argument("-k", default="", help="only the tests whose \"module: name\" has this expression")
    options = parser.parse_args()
    # Ended from outside, it ends its guest.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    package = options.package.resolve() if options.package else deb.build("bookworm")
    results = run(machines.MACHINES[options.machine], package, options.k, options.console)
    if options.json:
        options.json.write_text(json.dumps(results))
    for one in results:
        print(f"{one['outcome']}: {one['name']}" + (f"\n{one['text']}" if one["text"] else ""))
    return 1 if not results or any(one["outcome"] == "failed" for one in results) else 0


if __name__ == "__main__":
    sys.exit(main())
