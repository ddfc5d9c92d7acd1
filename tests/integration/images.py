"""The images that demo, tests and benchmarks use, built from the distribution's packages. No registry is needed.

Each is an OCI layout directory in a cache, under a name with a hash of its recipe: a changed recipe is a new image.
"""
import hashlib
import json
import os
import pathlib
import platform
import shutil
import subprocess
import tempfile

import oci

BUSYBOX = "/bin/busybox"

# Debian 12 as the contract suite wants it: no user with uid 1000, and these programs.
DEBIAN_PACKAGES = ["bash", "ca-certificates", "curl", "git", "passwd", "procps", "python3"]
# About as large as a toolchain image: one layer whose pull is worth measuring.
BIG_PACKAGES = [*DEBIAN_PACKAGES, "g++", "libpython3-dev", "perl", "vim-tiny"]

ENVIRONMENT = ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]


def _architecture():
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def _debian(packages):
    """A minimal Debian as one layer. The usual mirror, or DAIV_SANDBOX_TEST_MIRROR."""
    with tempfile.TemporaryDirectory() as scratch:
        # /tmp may be private to root; mmdebstrap's download user must get through.
        os.chmod(scratch, 0o755)
        plain = pathlib.Path(scratch, "root.tar")
        mirror = os.environ.get("DAIV_SANDBOX_TEST_MIRROR")
        command = ["mmdebstrap", "--variant=essential", "--quiet", "--include=" + ",".join(packages),
                   "--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/doc/*",
                   "--dpkgopt=path-exclude=/usr/share/locale/*", "bookworm", str(plain), *([mirror] if mirror else [])]
        subprocess.run(command, check=True, env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"})
        data = plain.read_bytes()
    stored = oci.compress(data, ["gzip", "-6", "-n"])
    return oci.Image([oci.Layer(stored, oci.OCI_LAYER_GZIP, oci.digest(data))],
                     {"Env": ENVIRONMENT, "Cmd": ["bash"]}, _architecture())


def debian():
    return _debian(DEBIAN_PACKAGES)


def debian_big():
    return _debian(BIG_PACKAGES)


def busybox_entries():
    """A root file system of nothing but a static busybox with every applet linked."""
    applets = subprocess.run([BUSYBOX, "--list-full"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    folders = ["bin", "dev", "etc", "home", "proc", "root", "sbin", "sys", "usr", "usr/bin", "usr/sbin", "var"]
    yield from (oci.entry(folder) for folder in folders)
    yield oci.entry("tmp", mode=0o1777)
    yield oci.entry("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\n")
    yield oci.entry("etc/group", "root:x:0:\nnobody:x:65534:\n")
    yield oci.entry("bin/busybox", pathlib.Path(BUSYBOX).read_bytes(), mode=0o755)
    for applet in applets:
        if applet not in ("bin/busybox", "linuxrc"):
            yield oci.hardlink(applet, "bin/busybox")


def busybox(config=None, *more_layers):
    """The busybox image, with another configuration and further layers on top where a test wants a special one."""
    return oci.Image([oci.Layer.of(*busybox_entries()), *more_layers],
                     {"Env": ENVIRONMENT, "Cmd": ["sh"], **(config or {})}, _architecture())


RECIPES = {"debian": debian, "busybox": busybox, "debian-big": debian_big}


def _recipe_hash(name):
    parts = [name, _architecture()]
    if name == "busybox":
        parts.append(hashlib.sha256(pathlib.Path(BUSYBOX).read_bytes()).hexdigest())
    else:
        parts += DEBIAN_PACKAGES if name == "debian" else BIG_PACKAGES
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]


def get(name, cache):
    """The image NAME, from the directory CACHE, built first where it is missing."""
    cache = pathlib.Path(cache)
    final = cache / f"{name}-{_recipe_hash(name)}"
    if not final.exists():
        cache.mkdir(parents=True, exist_ok=True)
        partial = pathlib.Path(tempfile.mkdtemp(prefix=f".{name}-", dir=cache))
        try:
            oci.save_oci_layout(RECIPES[name](), partial, f"{name}:latest")
            if not final.exists():  # else another run was first
                os.rename(partial, final)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return oci.load_oci_layout(final)
