"""The service in the guest, as systemd runs it, and how the tests ask it."""
import json
import pathlib
import re
import shutil
import subprocess
import time

import daemon as daemons

SHARE = pathlib.Path("/share")
STATE = pathlib.Path("/var/lib/daiv-sandbox")
CGROUPS = pathlib.Path("/sys/fs/cgroup/daiv-sandbox")
PROGRAMS = pathlib.Path("/opt/daiv-sandbox")  # laid out as the build tree is
SETTINGS = pathlib.Path("/etc/daiv-sandbox/daiv-sandbox.env")
UNIT = pathlib.Path("/etc/systemd/system/daiv-sandbox.service")
PORT = 8000
START_SECONDS = 120
CLI = f"{PROGRAMS}/cli/daiv-sandbox"
DEBIAN, BUSYBOX = "debian:bookworm-slim", "busybox:latest"
MIB = 1 << 20

# Sessions outlive the service: it is restarted alone, and their cgroup is not below its own.
UNIT_TEXT = f"""\
[Unit]
Description=daiv-sandbox
[Service]
ExecStart={CLI} serve
KillMode=process
Restart=always
TasksMax=infinity
[Install]
WantedBy=multi-user.target
"""


def sh(command, check=True):
    done = subprocess.run(command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if check and done.returncode != 0:
        raise AssertionError(f"{command}: exit code {done.returncode}\n{done.stdout[-4000:]}")
    return done.stdout


def cli(*arguments):
    return sh(" ".join([CLI, *arguments]))


def configure(**settings):
    """Writes the settings file; a later start takes it up."""
    values = {"DAIV_SANDBOX_API_KEY": daemons.KEY, "DAIV_SANDBOX_HOST": "127.0.0.1", "DAIV_SANDBOX_ENVIRONMENT": "local",
              "DAIV_SANDBOX_PORT": PORT, **settings}
    SETTINGS.parent.mkdir(exist_ok=True)
    SETTINGS.write_text("".join(f"{name}={value}\n" for name, value in values.items()))


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
    configure(**settings)
    sh("systemctl daemon-reload; systemctl restart daiv-sandbox.service")
    try:
        wait_for("the service answers", answers, START_SECONDS)
    except AssertionError:
        raise AssertionError(sh("journalctl -u daiv-sandbox.service --no-pager | tail -40")) from None


def install():
    sh("getent passwd daiv-sandbox || useradd --system --user-group --no-create-home --shell /usr/sbin/nologin daiv-sandbox")
    shutil.copytree(SHARE / "programs", PROGRAMS, dirs_exist_ok=True)
    UNIT.write_text(UNIT_TEXT)
    restart()
    sh("systemctl enable daiv-sandbox.service")
    for name in ("debian", "busybox"):
        cli("load", str(SHARE / f"{name}.tar"))


def api(**more):
    return daemons.Api(PORT, timeout=300, **more)


def create_raw(image):
    """(status, body) of a creation."""
    return api().raw("POST", "/session/", json.dumps({"base_image": image}), {"Content-Type": "application/json"})


def cgroup(session):
    """The session's cgroup; the id in its name may be written without dashes."""
    return next(path for path in CGROUPS.iterdir() if path.name.replace("-", "") == session.replace("-", ""))


def keyed(path):
    """A flat keyed file of a cgroup as a dictionary."""
    return {key: int(value) for key, value in re.findall(r"^(\S+) (\d+)$", path.read_text(), re.M)}
