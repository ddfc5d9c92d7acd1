"""What sessions leave on a host: processes, cgroups, mounts, network namespaces, directories, sockets, descriptors.

Everything is known by what belongs to one daemon alone: its uid ranges, its directories, its processes. So several
daemons can be tested on one machine at once.
"""
import os
import pathlib
import time

import daemon as daemons
import hierarchy

CLOSED, DEAD = "", "-1"
SETTLE_SECONDS = 2  # namespaces and lazily detached mounts go asynchronously


def _cgroups(uids):
    """Delegated to a session's root, so owned by it."""
    for directory, _, _ in os.walk(hierarchy.cgroup_root()):
        try:
            if os.stat(directory).st_uid in uids:
                yield directory
        except FileNotFoundError:
            continue


def _mounts(pids, path):
    for pid in pids:
        try:
            for line in pathlib.Path(f"/proc/{pid}/mountinfo").read_text().splitlines():
                if path in line:
                    yield " ".join(line.split()[3:])
        except (FileNotFoundError, ProcessLookupError):
            continue


def _namespaces(pids):
    """Network namespaces in which a process lives or that a descriptor holds."""
    for pid in pids:
        try:
            yield os.readlink(f"/proc/{pid}/ns/net")
        except (FileNotFoundError, ProcessLookupError):
            continue
        yield from (target for _, target in _descriptors(pid) if target.startswith("net:["))
    yield os.readlink("/proc/self/ns/net")


def _directories(daemon):
    for parent in (daemon.state / "sessions", daemon.state / "trash", daemon.runtime / "sessions", daemon.state / "front/tmp"):
        if parent.is_dir():
            yield from (str(child) for child in parent.iterdir())


def _sockets(daemon):
    for line in pathlib.Path("/proc/net/unix").read_text().splitlines():
        if str(daemon.runtime) in line:
            yield line.split()[-1]


def _descriptors(pid):
    """(number, what it is) of each descriptor of a process; one that is closed meanwhile is left out alone."""
    try:
        for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            try:
                yield fd.name, os.readlink(fd)
            except FileNotFoundError:
                continue
    except (FileNotFoundError, ProcessLookupError):
        return


def _pidfds(pids):
    """Whose end somebody waits for. What was there before and has gone is no trace, whatever the number of the rest."""
    for pid in pids:
        waited = [_waited_for(pid, fd) for fd, target in _descriptors(pid) if "pidfd" in target]
        yield from (f"{pid} waits for {other}" for other in waited if other not in (CLOSED, DEAD) and not _is_worker(other, pid))
        yield from (f"{pid} waits for the dead ({number})" for number in range(waited.count(DEAD)))


def _is_worker(pid, broker):
    """Whether it is a process in which the broker does one operation after the other: no trace of a session."""
    try:
        return os.readlink(f"/proc/{pid}/exe") == os.readlink(f"/proc/{broker}/exe")
    except (FileNotFoundError, ProcessLookupError):
        return False


def held_by_workers(daemon):
    """pid -> the files that a process of the broker's has open and the broker has not; each has a socket of its own besides."""
    (broker,) = daemon.children()
    known = {target for _, target in _descriptors(broker)}
    children = pathlib.Path(f"/proc/{broker}/task/{broker}/children").read_text().split()
    return {pid: {target for _, target in _descriptors(pid) if not target.startswith("socket:")} - known
            for pid in children if _is_worker(pid, broker)}


def _waited_for(pid, fd):
    """The pid that a pidfd names (pidfd_open(2)), DEAD where its process has been reaped."""
    try:
        for line in pathlib.Path(f"/proc/{pid}/fdinfo/{fd}").read_text().splitlines():
            if line.startswith("Pid:"):
                return line.split()[1]
    except (FileNotFoundError, ProcessLookupError):
        pass
    return CLOSED


def take(daemon):
    """kind of trace -> the traces of DAEMON's sessions that exist now."""
    pids = list(daemons.processes_of(daemon.uids))
    watchers = [os.getpid(), *([daemon.process.pid, *daemon.children()] if daemon.process else [])]
    return {
        "processes": {str(pid) for pid in pids},
        "cgroups": set(_cgroups(daemon.uids)),
        "mounts": set(_mounts(watchers, str(daemon.directory))),
        "network namespaces": set(_namespaces([*pids, *watchers])),
        "directories": set(_directories(daemon)),
        "sockets": set(_sockets(daemon)),
        "pidfds": set(_pidfds(watchers[1:])),
    }


def new_since(daemon, before, seconds=None, without=()):
    """Traces that were not there BEFORE, waiting up to SECONDS (SETTLE_SECONDS) for them to go. Empty: nothing leaked.

    WITHOUT names kinds that are not looked at: "pidfds" after a restart, since the front and the broker are others then.
    """
    deadline = time.monotonic() + (SETTLE_SECONDS if seconds is None else seconds)
    while True:
        now = take(daemon)
        leaked = {kind: traces - before[kind] for kind, traces in now.items()
                  if kind not in without and traces - before[kind]}
        if not leaked or time.monotonic() > deadline:
            return leaked
        time.sleep(0.05)  # the kernel tells nobody when a namespace is gone
