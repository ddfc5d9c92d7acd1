"""The package's service in the guest, as systemd runs it, and how the tests ask it."""
import json
import pathlib
import re
import subprocess
import time

import daemon as daemons

SHARE = pathlib.Path("/share")
STATE = pathlib.Path("/var/lib/daiv-sandbox")
CGROUPS = pathlib.Path("/sys/fs/cgroup/system.slice/daiv-sandbox-sessions.service/sessions")
SETTINGS = pathlib.Path("/etc/daiv-sandbox/daiv-sandbox.env")
KEY = pathlib.Path("/etc/daiv-sandbox/credentials/API_KEY")
FRONT, BROKER, HOLDER = "daiv-sandbox.service", "daiv-sandbox-broker.service", "daiv-sandbox-sessions.service"
PORT = 8000
START_SECONDS = 120
DEBIAN, BUSYBOX = "debian:bookworm-slim", "busybox:latest"
MIB = 1 << 20
MARK = "# of the tests\n"


def sh(command, check=True):
    done = subprocess.run(command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if check and done.returncode != 0:
        raise AssertionError(f"{command}: exit code {done.returncode}\n{done.stdout[-4000:]}")
    return done.stdout


def apt(*arguments):
    return sh("DEBIAN_FRONTEND=noninteractive apt-get --quiet --yes " + " ".join(arguments))


def wait_for(what, condition, seconds=60):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.1)  # nothing reports it
    raise AssertionError(f"not within {seconds} s: {what}")


def answers():
    try:
        return daemons.Api(PORT, timeout=10).raw("GET", "/-/health/")[0] == 200
    except OSError:
        return False


def restart(**settings):
    """Restarts the front with SETTINGS in place of those of an earlier call."""
    shipped = SETTINGS.read_text().partition(MARK)[0]
    SETTINGS.write_text(shipped + (MARK if settings else "") + "".join(f"{name}={value}\n" for name, value in settings.items()))
    sh(f"systemctl restart {FRONT}")


def api(**more):
    return daemons.Api(PORT, key=KEY.read_text(), timeout=300, **more)


def create_raw(image):
    """(status, body) of a creation."""
    return api().raw("POST", "/session/", json.dumps({"base_image": image}), {"Content-Type": "application/json"})


def cgroup(session):
    """The session's cgroup; the id in its name may be written without dashes."""
    return next(path for path in CGROUPS.iterdir() if path.name.replace("-", "") == session.replace("-", ""))


def processes(session):
    """Pids, as the guest's root sees them, of the session's processes."""
    return {int(pid) for file in cgroup(session).rglob("cgroup.procs") for pid in file.read_text().split()}


def main_pid(unit):
    return int(sh(f"systemctl show --property MainPID --value {unit}"))


def keyed(path):
    """A flat keyed file of a cgroup as a dictionary."""
    return {key: int(value) for key, value in re.findall(r"^(\S+) (\d+)$", path.read_text(), re.M)}


def commands(word):
    """Pids of the processes of the whole guest with WORD in their command line."""
    found = set()
    for file in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word in file.read_text(errors="replace").split("\0"):
                found.add(int(file.parent.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


class Skip(Exception):
    """A test that this machine has not what it needs for; the text says what."""


def need_controller(name):
    if name not in (CGROUPS / "cgroup.controllers").read_text().split():
        raise Skip(f"no {name} controller")


class Session:
    """A session that is removed at the end, with a client of its own."""

    def __init__(self, image=DEBIAN, **create):
        self.api = api()
        self.id = self.api.create(image, **create)
        self.cgroup = cgroup(self.id)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        api().close(self.id, force=True)
        assert not self.cgroup.exists(), "the session's cgroup is left"

    def run(self, command, **more):
        return self.api.run_one(self.id, command, **more)

    def output(self, command):
        return self.api.output(self.id, command)


def leave_process(session):
    """Starts `sleep 100000` in the background of a session and returns all pids of the session."""
    assert api().run_one(session, "sleep 100000 >/dev/null 2>&1 &") == ("", 0)
    wait_for("the process in the background", lambda: commands("100000") & processes(session))
    return processes(session)
