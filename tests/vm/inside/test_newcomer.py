"""A newcomer's path: the package is installed on a host that never had it; images are loaded, a session made and used."""
import json
import re
import stat

import daemon as daemons
import exposures
import guest


def test_the_package_installs_and_runs(_):
    said = guest.apt("install", "/share/daiv-sandbox.deb")
    guest.wait_for("the API answers", guest.answers, guest.START_SECONDS)
    key = guest.KEY.read_text()
    assert re.fullmatch("[0-9a-f]{64}", key) and key not in said
    assert stat.S_IMODE(guest.KEY.stat().st_mode) == 0o600
    assert guest.sh(f"systemctl is-active daiv-sandbox.socket {guest.FRONT} {guest.BROKER} {guest.HOLDER}").split() == ["active"] * 4


def test_it_asks_for_the_key(_):
    assert daemons.Api(guest.PORT, key="another").raw("GET", "/session/none/")[0] == 403


def test_doctor_finds_nothing_to_mend(_):
    report = json.loads(guest.sh("daiv-sandbox doctor --json"))
    assert {"daemon", "cgroups", "settings"} <= {check["name"] for check in report}
    assert [check for check in report if check["result"] != "ok"] == []


def credentials(unit):
    """(uids, permitted capabilities) of a unit's process."""
    status = guest.sh(f"cat /proc/{guest.main_pid(unit)}/status")
    return set(re.search(r"^Uid:\s+(.*)$", status, re.M).group(1).split()), int(re.search(r"^CapPrm:\s+(\S+)$", status, re.M).group(1), 16)


def test_the_front_is_never_root(_):
    user = guest.sh("id -u daiv-sandbox").strip()
    assert credentials(guest.FRONT) == ({user}, 0)
    assert credentials(guest.BROKER)[0] == {"0"}


def test_the_units_are_closed_in_at_least_as_the_documentation_says(_):
    stated = json.loads((guest.SHARE / "options.json").read_text())["exposures"]
    assert set(stated) == {guest.FRONT, guest.BROKER, guest.HOLDER}
    # The documentation has what is said of the files; of a unit that runs, systemd counts in what one setting brings of another.
    scores = {unit: exposures.score(guest.sh(f"systemd-analyze security {unit}")) for unit in stated}
    print(f"exposures: {scores}", flush=True)
    assert all(float(scores[unit]) <= float(stated[unit]) for unit in stated), scores


def test_images_are_loaded_from_archives(_):
    for name in ("debian", "busybox"):
        guest.sh(f"daiv-sandbox load /share/{name}.tar")
    listed = guest.sh("daiv-sandbox images")
    assert all(reference.partition(":")[0] in listed for reference in (guest.DEBIAN, guest.BUSYBOX)), listed


def test_a_session_runs_commands_and_is_listed(_):
    with guest.Session() as session:
        assert session.run("echo hello > file; cat file; id -u") == ("hello\n1000\n", 0)
        assert session.id in guest.sh("daiv-sandbox ps")
        assert guest.sh(f"daiv-sandbox exec {session.id} 'cat file'") == "hello\n"
        guest.api().close(session.id)
        assert session.run("cat file") == ("hello\n", 0)
    assert session.id not in guest.sh("daiv-sandbox ps")
