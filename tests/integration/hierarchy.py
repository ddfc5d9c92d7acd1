"""Where this machine mounts its cgroups v2 hierarchy, and what that hierarchy can do."""
import pathlib


def cgroup_root():
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        if right.split()[0] == "cgroup2":
            return pathlib.Path(left.split()[4])
    raise RuntimeError("no cgroup2 hierarchy is mounted")


def controllers():
    return (cgroup_root() / "cgroup.controllers").read_text().split()
