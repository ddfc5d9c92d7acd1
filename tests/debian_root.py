#!/usr/bin/env python3
"""Root directories of Debian releases, made by mmdebstrap and kept below build/roots.

usage: debian_root.py [--foreign ARCHITECTURE] SUITE COMMAND...

Runs COMMAND as root on a machine of SUITE: a root that had nothing but a minimal Debian when it was made, with this
checkout and this machine's /tmp in it. With --foreign, it may install packages of that architecture, too. ./dev builds there in
build-SUITE.
"""
import argparse
import hashlib
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = ROOT / "build" / "roots"
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
               "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}

# The mounts are in a namespace of the command's own, and the command ends with this program.
ENTER = """\
set -e
mount -t proc proc "$0/proc"
mount --rbind /sys "$0/sys"
mount --rbind /dev "$0/dev"
mount --bind /tmp "$0/tmp"
mkdir -p "$0$PWD"
mount --bind "$PWD" "$0$PWD"
exec chroot "$0" sh -c 'cd "$0" && exec "$@"' "$PWD" "$@"
"""


def own_suite():
    """The release of this machine."""
    lines = (line.partition("=") for line in pathlib.Path("/etc/os-release").read_text().splitlines())
    return next((value.strip('"') for name, _, value in lines if name == "VERSION_CODENAME"), "")


def _bootstrap(suite, final, *options):
    """Makes FINAL, a directory or a tar with SUITE, where it is missing."""
    if final.exists():
        return final
    final.parent.mkdir(parents=True, exist_ok=True)
    unfinished = final.with_name(f"unfinished-{final.name}")
    subprocess.run(["rm", "-rf", "--one-file-system", unfinished], check=True)
    mirror = os.environ.get("DAIV_SANDBOX_TEST_MIRROR")
    subprocess.run(["mmdebstrap", "--variant=minbase", "--quiet", *options, suite, unfinished, *([mirror] if mirror else [])],
                   check=True, stdout=sys.stderr)
    return unfinished.rename(final)


def archive(suite, packages):
    """The path of a tar of SUITE with PACKAGES."""
    key = hashlib.sha256(" ".join(packages).encode()).hexdigest()[:12]
    return _bootstrap(suite, CACHE / f"{suite}-{key}.tar", "--include=" + ",".join(packages))


def command_in(suite, command, foreign=None):
    """The command line that runs COMMAND in the checkout on SUITE: COMMAND itself where that is this machine's."""
    if suite == own_suite() and not foreign:
        return list(command)
    return ["/usr/bin/python3", __file__, *(["--foreign", foreign] if foreign else []), suite, *command]


def run(suite, command, foreign=None):
    """Becomes COMMAND in the root."""
    architectures = subprocess.run(["dpkg", "--print-architecture"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    name = "-".join([suite, "machine", *([foreign] if foreign else [])])
    root = _bootstrap(suite, CACHE / name, "--architectures=" + ",".join(architectures + ([foreign] if foreign else [])))
    os.chdir(ROOT)
    os.execve("/usr/bin/unshare",
              ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, root, *command],
              {**ENVIRONMENT, "DAIV_SANDBOX_BUILD_DIR": f"{ROOT}/build-{suite}"})


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].splitlines()[0])
    parser.add_argument("--foreign")
    parser.add_argument("suite")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if os.geteuid() != 0:
        parser.error("a root directory of another Debian needs root")
    run(options.suite, options.command, options.foreign)


if __name__ == "__main__":
    main()
