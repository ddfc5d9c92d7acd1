"""The machines that a guest runs on: what starts one, and what its disk must have for that.

Each has: name; complete: it has all that a test may ask for, and none may skip; limit_seconds: what runs longer hangs;
packages: what its disk needs beside those of every guest; modules: loaded at boot; mounts: mount(8)'s arguments for the share
at /share and for the device with what the daemon stores; version(): of what else comes into its disk; prepare(root);
command(...): what runs until the guest ends, with its console at standard output.
"""
import os
import pathlib
import shutil
import subprocess

MEMORY = "1536M"
APPEND = ["rw", "quiet", "panic=-1", "systemd.unified_cgroup_hierarchy=1", "systemd.show_status=false"]


class UserModeLinux:
    """Linux as a process (Debian's user-mode-linux): one processor, no KVM needed."""

    name = "uml"
    complete = False
    limit_seconds = 1800  # a whole run takes some minutes of an idle machine
    packages = []
    modules = ["configs"]
    # hostfs without a path is the directory of the kernel's parameter hostfs=.
    mounts = ("-t hostfs none", "/dev/ubdb")

    KERNEL = pathlib.Path("/usr/bin/linux.uml")
    MODULES = pathlib.Path("/usr/lib/uml/modules")

    def version(self):
        return sorted(path.name for path in self.MODULES.iterdir())

    def prepare(self, root):
        modules = root / "lib" / "modules"
        modules.mkdir(exist_ok=True)
        for release in self.MODULES.iterdir():
            # What the daemon needs of the kernel's modules, and the indexes that modprobe reads.
            shutil.copytree(release, modules / release.name, ignore=shutil.ignore_patterns("sound", "usb", "media", "staging"))

    def command(self, disk, state, share, scratch):
        return [self.KERNEL, *APPEND, f"ubda={scratch}/cow,{disk}", f"ubdb={state}", "root=/dev/ubda", f"mem={MEMORY}", "con=null",
                "con0=null,fd:1", "con1=null,fd:1", "umid=guest", f"uml_dir={scratch}/uml/", f"hostfs={share}"]


class Qemu:
    """Debian's own kernel under QEMU: several processors, every controller, AppArmor. Emulated where there is no KVM."""

    name = "qemu"
    complete = True
    limit_seconds = 7200
    packages = ["linux-image-amd64", "tiny-initramfs", "apparmor"]
    modules = []
    mounts = ("-t 9p -o trans=virtio,msize=262144 share", "/dev/vdb")

    PROCESSORS = 3
    # What the kernel needs to have a root; everything else lies there.
    ROOT_MODULES = "virtio_pci,virtio_blk,ext4"

    def version(self):
        return []

    def prepare(self, root):
        kernel = next((root / "boot").glob("vmlinuz-*"))
        release = kernel.name.removeprefix("vmlinuz-")
        subprocess.run(["chroot", root, "mktirfs", "-o", "/boot/initrd", "--auto-modules=no", "--microcode=no",
                        f"--include-modules={self.ROOT_MODULES}", release], check=True)
        kernel.rename(root / "boot" / "vmlinuz")

    def command(self, disk, state, share, scratch):
        for file in ("vmlinuz", "initrd"):
            subprocess.run(["/sbin/debugfs", "-R", f"dump /boot/{file} {scratch}/{file}", disk], check=True, stderr=subprocess.DEVNULL)
        accelerator = ["-accel", "kvm", "-cpu", "host"] if os.access("/dev/kvm", os.R_OK | os.W_OK) else \
            ["-accel", "tcg,thread=multi", "-cpu", "qemu64,+rdrand"]
        return ["qemu-system-x86_64", *accelerator, "-smp", str(self.PROCESSORS), "-m", MEMORY, "-nodefaults", "-no-user-config",
                "-display", "none", "-serial", "stdio", "-nic", "none", "-kernel", scratch / "vmlinuz", "-initrd", scratch / "initrd",
                "-append", " ".join([*APPEND, "root=/dev/vda", "console=ttyS0", "mitigations=off"]),
                "-drive", f"file={disk},format=raw,if=virtio,snapshot=on", "-drive", f"file={state},format=raw,if=virtio,cache=unsafe",
                "-virtfs", f"local,path={share},mount_tag=share,security_model=none"]


MACHINES = {machine.name: machine for machine in (UserModeLinux(), Qemu())}
