"""The .deb: what lintian says, and its life in a fresh Debian: installed, upgraded, removed, purged."""
import json
import re
import shutil
import stat

import deb
import pytest

KEY = "/etc/daiv-sandbox/credentials/API_KEY"
SETTINGS = "/etc/daiv-sandbox/daiv-sandbox.env"
FILES = [
    "/usr/bin/daiv-sandbox", "/usr/libexec/daiv-sandbox/daiv-sandbox-broker", "/usr/libexec/daiv-sandbox/daiv-sandbox-agent",
    "/usr/libexec/daiv-sandbox/daiv-sandbox-unpack", "/usr/libexec/daiv-sandbox/daiv-sandbox-hold",
    "/lib/systemd/system/daiv-sandbox.service", "/lib/systemd/system/daiv-sandbox.socket",
    "/lib/systemd/system/daiv-sandbox-broker.service", "/lib/systemd/system/daiv-sandbox-broker.socket",
    "/lib/systemd/system/daiv-sandbox-sessions.service", "/usr/lib/sysusers.d/daiv-sandbox.conf",
    "/usr/lib/tmpfiles.d/daiv-sandbox.conf", "/usr/share/man/man8/daiv-sandbox.8.gz",
    "/usr/share/man/man5/daiv-sandbox.env.5.gz", "/usr/share/bash-completion/completions/daiv-sandbox",
    "/usr/share/zsh/vendor-completions/_daiv-sandbox", "/usr/share/daiv-sandbox/grafana/daiv-sandbox.json",
    "/usr/share/daiv-sandbox/daiv-sandbox.env",
]
# What dpkg and the user database rightly remember.
REMEMBERED = re.compile(r"^\./(root/|proc/|dev/|var/log/|var/cache/|etc/(passwd|group|shadow|gshadow)|usr/share/doc/)")


def installed(root, package):
    return root.run("dpkg", "--install", root.bring(package)).stdout


def newer(package, directory):
    """PACKAGE again, as version 9."""
    path = directory / "daiv-sandbox_9.deb"
    deb.make_newer(package, path)
    return path


def with_manager(root):
    """Lets the package's scripts believe that systemd runs, and records what they ask of it."""
    root.file("/run/systemd/system").mkdir(parents=True)
    systemctl = root.file("/bin/systemctl")
    systemctl.unlink()
    # A unit's state is asked for before it is restarted: it runs.
    systemctl.write_text('#!/bin/sh\nprintf "%s\\n" "$*" >>/root/asked\nexit 0\n')
    systemctl.chmod(0o755)
    return root.file("/root/asked")


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def daemons_user(root):
    return next(line.split(":") for line in root.file("/etc/passwd").read_text().splitlines() if line.startswith("daiv-sandbox:"))


def assert_of_the_daemons_group(root):
    assert mode(root.file(SETTINGS)) == 0o640
    assert root.file(SETTINGS).stat().st_uid == 0 and root.file(SETTINGS).stat().st_gid == int(daemons_user(root)[3])


def traces(root):
    """Files of the root that have the project's name."""
    for path in sorted(root.path.rglob("*daiv*")):
        name = f"./{path.relative_to(root.path)}"
        if not REMEMBERED.match(name):
            yield name


def test_lintian_finds_no_error(suite, package):
    code, said = deb.lintian(suite, package)
    assert code == 0 and "E: " not in said, said


def test_the_versions_agree(package):
    project = (deb.ROOT / "meson.build").read_text()
    version = re.search(r"^  version: '(.*)',$", project, re.M).group(1)
    assert package.name.startswith(f"daiv-sandbox_{version}_")


def test_installation_makes_a_key_a_user_and_directories(root, package):
    said = installed(root, package)
    for file in FILES:
        assert root.file(file).is_file(), file
    key = root.file(KEY).read_text()
    assert re.fullmatch(r"[0-9a-f]{64}", key)
    assert key not in said
    assert mode(root.file(KEY)) == 0o600 and root.file(KEY).stat().st_uid == 0
    assert mode(root.file(KEY).parent) == 0o700
    user = daemons_user(root)
    assert_of_the_daemons_group(root)
    assert root.file(SETTINGS).read_text() == (deb.ROOT / "packaging" / "daiv-sandbox.env").read_text()
    assert SETTINGS not in root.run("dpkg-query", "--show", "--showformat=${Conffiles}", "daiv-sandbox").stdout
    assert root.file("/var/lib/daiv-sandbox/front").stat().st_uid == int(user[2])
    enabled = {path.name for path in root.file("/etc/systemd/system").rglob("daiv-sandbox*")}
    assert enabled == {"daiv-sandbox.service", "daiv-sandbox.socket", "daiv-sandbox-broker.socket"}


def test_the_installed_programs_run(root, package):
    installed(root, package)
    assert root.run("daiv-sandbox", "version").stdout.startswith("daiv-sandbox 0.")
    settings = root.run("daiv-sandbox", "settings").stdout
    assert "DAIV_SANDBOX_API_KEY" in settings and root.file(KEY).read_text() not in settings
    said = root.run("daiv-sandbox", "doctor", "--json", check=False).stdout
    # Before or after it, what the broker says of a host without cgroups.
    report, _ = json.JSONDecoder().raw_decode(said[said.index("[\n"):])
    checks = {check["name"]: check["result"] for check in report}
    # Of the host there is too little in a chroot; what the package brings must be well.
    assert {checks[name] for name in ("settings", "user", "programs")} == {"ok"}, checks


def test_an_upgrade_keeps_key_and_settings_and_spares_sessions(root, package, tmp_path):
    installed(root, package)
    key = root.file(KEY).read_text()
    with root.file(SETTINGS).open("a") as settings:
        settings.write("DAIV_SANDBOX_LOG_LEVEL=DEBUG\n")
    asked = with_manager(root)
    installed(root, newer(package, tmp_path))
    assert root.file(KEY).read_text() == key
    assert "DAIV_SANDBOX_LOG_LEVEL=DEBUG" in root.file(SETTINGS).read_text()
    calls = asked.read_text().splitlines()
    touched = [call for call in calls if re.search(r"\b(stop|restart|try-restart|kill)\b", call)]
    assert any("restart" in call and "daiv-sandbox.service" in call for call in touched), calls
    for unit in ("daiv-sandbox-sessions.service", "daiv-sandbox.socket", "daiv-sandbox-broker"):
        assert not any(unit in call for call in touched), touched


def test_an_upgrade_makes_no_key_where_the_operator_removed_it(root, package, tmp_path):
    installed(root, package)
    root.file(KEY).unlink()
    installed(root, newer(package, tmp_path))
    assert not root.file(KEY).exists()


@pytest.mark.parametrize("mode_before", [0o600, 0o644])
def test_settings_that_are_there_before_are_taken_with_their_key(root, package, tmp_path, mode_before):
    """Those of the Docker variant, say: no question, no other key, and the daemon may read them, its group alone."""
    root.file(SETTINGS).parent.mkdir()
    root.file(SETTINGS).write_text("DAIV_SANDBOX_API_KEY=from-the-docker-variant\n")
    root.file(SETTINGS).chmod(mode_before)
    said = installed(root, package)
    assert "onfiguration file" not in said, said
    installed(root, newer(package, tmp_path))
    assert not root.file(KEY).exists()
    assert root.file(SETTINGS).read_text() == "DAIV_SANDBOX_API_KEY=from-the-docker-variant\n"
    assert_of_the_daemons_group(root)
    assert "from-the-docker-variant" not in root.run("daiv-sandbox", "settings").stdout
    root.run("dpkg", "--purge", "daiv-sandbox")
    assert list(traces(root)) == []


def test_settings_that_the_operator_removed_stay_away(root, package, tmp_path):
    installed(root, package)
    root.file(SETTINGS).unlink()
    installed(root, newer(package, tmp_path))
    assert not root.file(SETTINGS).exists()


@pytest.mark.parametrize("changed", [True, False], ids=["changed", "as it came"])
def test_an_upgrade_from_a_package_with_the_settings_as_a_conffile_keeps_them(root, package, tmp_path, changed):
    earlier = tmp_path / "daiv-sandbox_0.0.9.deb"
    deb.make_with_conffile(package, earlier, "0.0.9", SETTINGS, "DAIV_SANDBOX_LOG_LEVEL=INFO\n")
    installed(root, earlier)
    assert SETTINGS in root.run("dpkg-query", "--show", "--showformat=${Conffiles}", "daiv-sandbox").stdout
    if changed:
        root.file(SETTINGS).write_text("DAIV_SANDBOX_LOG_LEVEL=DEBUG\n")
    before = root.file(SETTINGS).read_text()
    said = installed(root, package)
    assert "onfiguration file" not in said, said
    assert root.file(SETTINGS).read_text() == before
    installed(root, newer(package, tmp_path))
    assert root.file(SETTINGS).read_text() == before
    assert_of_the_daemons_group(root)
    assert [path.name for path in root.file(SETTINGS).parent.iterdir() if path.name.startswith("daiv")] == ["daiv-sandbox.env"]
    root.run("dpkg", "--purge", "daiv-sandbox")
    assert list(traces(root)) == []


def test_removal_stops_the_sessions_and_keeps_their_files(root, package):
    installed(root, package)
    asked = with_manager(root)
    kept = root.file("/var/lib/daiv-sandbox/front/kept")
    kept.touch()
    root.run("dpkg", "--remove", "daiv-sandbox")
    stopped = " ".join(call for call in asked.read_text().splitlines() if "stop" in call)
    assert "daiv-sandbox-sessions.service" in stopped and "daiv-sandbox.service" in stopped
    assert kept.exists() and root.file(KEY).exists()
    assert not root.file("/run/daiv-sandbox").exists()


def claim(root, uid, directory):
    """The link by which daemons of a host know that DIRECTORY has the range of uids from UID on."""
    link = root.file(f"/run/daiv-sandbox-uids/{uid}")
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(directory)
    return link


def test_purge_leaves_the_uids_of_another_daemon(root, package):
    installed(root, package)
    others = claim(root, 1879048192, "/srv/another/layers")
    root.run("dpkg", "--purge", "daiv-sandbox")
    assert others.is_symlink()


@pytest.mark.parametrize("after", ["installation", "use"])
def test_purge_leaves_nothing(root, package, after):
    installed(root, package)
    if after == "use":
        layer = root.file("/var/lib/daiv-sandbox/layers/one")
        layer.mkdir(parents=True)
        shutil.copy("/bin/true", layer / "file")
        claim(root, 1879048192, "/var/lib/daiv-sandbox/layers")
    root.run("dpkg", "--purge", "daiv-sandbox")
    assert list(traces(root)) == []
