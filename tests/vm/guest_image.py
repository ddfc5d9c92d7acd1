"""The disk of the guest: a Debian with systemd as PID 1 on ext4, made by mmdebstrap and kept in a cache.

Each is one file under a name with a hash of its recipe, this module and the machine's; a guest writes into a
copy-on-write file beside it.
"""
import hashlib
import json
import os
import pathlib
import platform
import shutil
import subprocess
import tempfile

import machines

DISK_BYTES = 3 << 30  # sparse
STATE_BYTES = 4 << 30  # sparse; doctor wants 2 GiB free

PACKAGES = ["bash", "ca-certificates", "curl", "kmod", "procps", "python3-minimal", "libpython3-stdlib", "quota",
            "systemd-sysv", "dbus", "adduser", "iproute2", "e2fsprogs", "util-linux"]
MODULES = ["overlay", "veth", "quota_v2"]
# Of what systemd starts on a host, nothing of this is needed here, and each program that begins takes a part of a second.
MASKED_UNITS = [
    "apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "e2scrub_reap.service", "fstrim.timer",
    "systemd-tmpfiles-clean.timer", "getty.target", "console-getty.service", "cryptsetup.target", "integritysetup.target",
    "veritysetup.target", "remote-fs.target", "dev-hugepages.mount", "dev-mqueue.mount", "sys-fs-fuse-connections.mount",
    "sys-kernel-config.mount", "sys-kernel-debug.mount", "sys-kernel-tracing.mount", "proc-sys-fs-binfmt_misc.automount",
    "systemd-ask-password-console.path", "systemd-ask-password-wall.path", "systemd-initctl.socket", "kmod-static-nodes.service",
    "modprobe@configfs.service", "modprobe@dm_mod.service", "modprobe@drm.service", "modprobe@efi_pstore.service",
    "modprobe@fuse.service", "modprobe@loop.service",
    *(f"systemd-{name}.service" for name in (
        "binfmt", "firstboot", "journal-flush", "logind", "machine-id-commit", "pcrphase", "pcrphase-sysinit", "pstore", "random-seed",
        "remount-fs", "repart", "sysusers", "timesyncd", "tmpfiles-setup-dev", "udev-settle", "update-utmp", "update-utmp-runlevel",
        "user-sessions"))]

# Runs what the share holds and ends the guest, whatever comes of it: the result is a file.
TEST_UNIT = """\
[Unit]
Description=Tests of the guest
After=multi-user.target

[Service]
Type=oneshot
ExecStart=/usr/bin/python3 /share/inside/run.py
ExecStopPost=/bin/sh -c 'if test -e /run/reboot-wanted; then systemctl reboot --no-block; else systemctl poweroff --no-block; fi'
StandardOutput=journal+console
StandardError=journal+console

[Install]
WantedBy=default.target
"""
# Not in fstab: without udev nothing tells systemd that a device is there.
MOUNT_UNIT = """\
[Unit]
DefaultDependencies=no
Before=local-fs.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/mount {} /share
ExecStart=/bin/mount -t ext4 -o prjquota {} /var/lib/daiv-sandbox

[Install]
RequiredBy=local-fs.target
"""
# What ends in the emergency shell ends the guest.
EMERGENCY_UNIT = "[Service]\nExecStart=\nExecStart=/bin/systemctl poweroff -ff\n"


def _recipe(machine, packages):
    texts = [pathlib.Path(module).read_text() for module in (__file__, machines.__file__)]
    parts = [packages, texts, machine.name, machine.version(), platform.machine()]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]


def _write(root, path, text):
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


def _configure(machine, root):
    _write(root, "etc/hostname", "guest\n")
    _write(root, "etc/fstab", "")
    _write(root, "etc/systemd/system/emergency.service.d/guest.conf", EMERGENCY_UNIT)
    for unit, text, wanted_by in (("guest-tests.service", TEST_UNIT, "default.target.wants"),
                                  ("guest-mounts.service", MOUNT_UNIT.format(*machine.mounts), "local-fs.target.requires")):
        _write(root, f"etc/systemd/system/{unit}", text)
        link = root / "etc/systemd/system" / wanted_by / unit
        link.parent.mkdir(parents=True)
        link.symlink_to(f"/etc/systemd/system/{unit}")
    (root / "etc/systemd/system/default.target").symlink_to("/lib/systemd/system/multi-user.target")
    for unit in MASKED_UNITS:
        (root / "etc/systemd/system" / unit).symlink_to("/dev/null")
    # They run at each boot and at each daemon-reload, and have nothing to say here.
    generators = root / "etc/systemd/system-generators"
    generators.mkdir()
    for generator in (root / "lib/systemd/system-generators").iterdir():
        (generators / generator.name).symlink_to("/dev/null")
    _write(root, "etc/modules-load.d/guest.conf", "".join(f"{name}\n" for name in (*MODULES, *machine.modules)))
    _write(root, "etc/machine-id", hashlib.sha256(b"guest").hexdigest()[:32] + "\n")
    # The journal goes to the console's log with what the tests print.
    _write(root, "etc/systemd/journald.conf.d/guest.conf", "[Journal]\nStorage=volatile\n")
    # Caches that the first boot would make anew (systemd-update-done.service(8)).
    for place in ("etc/.updated", "var/.updated"):
        (root / place).touch()
    for folder in ("share", "var/lib/daiv-sandbox"):
        (root / folder).mkdir()
    machine.prepare(root)


def _make_disk(root, disk):
    with disk.open("wb") as file:
        file.truncate(DISK_BYTES)
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-m", "0", "-d", root, disk], check=True)


def make_state_disk(disk):
    """An empty disk for what the daemon stores, with project quota: a root has it only where no module is needed for it."""
    with disk.open("wb") as file:
        file.truncate(STATE_BYTES)
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-O", "quota,project", "-E", "quotatype=prjquota,lazy_itable_init=1",
                    "-m", "0", disk], check=True)


def _build(machine, packages, disk):
    with tempfile.TemporaryDirectory(dir="/var/tmp") as scratch:
        os.chmod(scratch, 0o755)  # mmdebstrap's download user must get through
        root = pathlib.Path(scratch, "root")
        mirror = os.environ.get("DAIV_SANDBOX_TEST_MIRROR")
        command = ["mmdebstrap", "--variant=minbase", "--quiet", "--include=" + ",".join(packages),
                   "--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/doc/*",
                   "--dpkgopt=path-exclude=/usr/share/locale/*", "--dpkgopt=force-unsafe-io", "bookworm", str(root),
                   *([mirror] if mirror else [])]
        subprocess.run(command, check=True)
        _configure(machine, root)
        _make_disk(root, disk)


def get(cache, machine, dependencies):
    """The path of a disk for MACHINE with the packages DEPENDENCIES, from the directory CACHE, built first where it is missing."""
    packages = sorted({*PACKAGES, *machine.packages, *dependencies})
    final = pathlib.Path(cache) / f"{machine.name}-{_recipe(machine, packages)}.ext4"
    if not final.exists():
        final.parent.mkdir(parents=True, exist_ok=True)
        partial = pathlib.Path(tempfile.mkdtemp(prefix=".guest-", dir=final.parent))
        try:
            _build(machine, packages, partial / "disk")
            os.rename(partial / "disk", final)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return final
