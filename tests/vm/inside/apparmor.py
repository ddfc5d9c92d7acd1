"""The packaged profile of the front: put in force, taken back, and what the kernel says of it."""
import contextlib
import pathlib
import re

import guest

NAME = "daiv-sandbox-front"
PACKAGED = pathlib.Path("/usr/share/daiv-sandbox/apparmor/daiv-sandbox")
PROFILE = pathlib.Path("/etc/apparmor.d/daiv-sandbox")
STATES = pathlib.Path("/etc/apparmor.d/local/daiv-sandbox-state")
DROP_IN = pathlib.Path(f"/etc/systemd/system/{guest.FRONT}.d/override.conf")


def need():
    if not pathlib.Path("/sys/kernel/security/apparmor").exists():
        raise guest.Skip("no AppArmor in the kernel")


def put_in_force():
    """As the head of the profile says."""
    guest.sh(f"cp {PACKAGED} {PROFILE}")
    load()
    DROP_IN.parent.mkdir(exist_ok=True)
    DROP_IN.write_text(f"[Service]\nAppArmorProfile={NAME}\n")
    restart()


def take_back():
    DROP_IN.unlink()
    restart()
    guest.sh(f"apparmor_parser -R {PROFILE} && rm {PROFILE}")


def load():
    guest.sh(f"apparmor_parser -r {PROFILE}")


@contextlib.contextmanager
def state_directory(path):
    """Where the profile is in force: with PATH as a state directory beside the default one."""
    if not PROFILE.exists():
        yield
        return
    STATES.write_text(f"@{{daiv_sandbox_state}} += {path}\n")
    load()
    try:
        yield
    finally:
        STATES.unlink()
        load()


def restart():
    guest.sh("systemctl daemon-reload")
    guest.restart()
    guest.wait_for("the API answers", guest.answers, guest.START_SECONDS)


def confinement():
    return pathlib.Path(f"/proc/{guest.main_pid(guest.FRONT)}/attr/current").read_text()


def denials(of=NAME):
    """(program, line) of what the kernel denied to the profile since it was booted."""
    lines = guest.sh("journalctl -k --no-pager -o cat").splitlines()
    return [(re.search(r'comm="([^"]*)"', line).group(1), line) for line in lines
            if 'apparmor="DENIED"' in line and f'profile="{of}"' in line]
