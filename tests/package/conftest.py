"""The package, built from the tree's own objects, and a root of a fresh Debian to install it in."""
import hashlib
import os
import pathlib
import subprocess

import deb
import pytest

CACHE = deb.ROOT / "build" / "roots"


def pytest_configure(config):
    if os.geteuid() != 0:
        raise pytest.UsageError("these tests need root: sudo ./dev test")


def pytest_addoption(parser):
    parser.addoption("--package", help="a .deb that was built before")


@pytest.fixture(scope="session")
def package(request):
    """The path of the .deb."""
    if given := request.config.getoption("--package"):
        return pathlib.Path(given).resolve()
    return deb.build()


def base(suite, packages):
    """A tar of SUITE with PACKAGES, made once."""
    key = hashlib.sha256(" ".join(packages).encode()).hexdigest()[:12]
    path = CACHE / f"{suite}-{key}.tar"
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        mirror = os.environ.get("DAIV_SANDBOX_TEST_MIRROR")
        unfinished = path.with_suffix(".unfinished.tar")
        subprocess.run(["mmdebstrap", "--variant=minbase", "--quiet", "--include=" + ",".join(packages), suite, unfinished,
                        *([mirror] if mirror else [])], check=True)
        unfinished.rename(path)
    return path


class Root:
    """A root directory. Commands run in mount and pid namespaces of their own, with /proc and without a network."""

    def __init__(self, path):
        self.path = path

    def run(self, *command, check=True):
        script = 'mount -t proc proc "$0/proc" && mount --bind /dev "$0/dev" && exec chroot "$0" "$@"'
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
        done = subprocess.run(["unshare", "--mount", "--pid", "--net", "--fork", "sh", "-c", script, self.path, *command],
                              env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300,
                              stdin=subprocess.DEVNULL)
        assert not check or done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}"
        return done

    def file(self, path):
        return self.path / path.lstrip("/")

    def bring(self, package):
        """PACKAGE's path inside, where it is copied to."""
        target = self.file("/root") / package.name
        target.write_bytes(package.read_bytes())
        return f"/root/{package.name}"


@pytest.fixture(scope="session")
def fresh(package, tmp_path_factory):
    """The directory of a Debian without the package; never written to."""
    path = tmp_path_factory.mktemp("fresh")
    subprocess.run(["tar", "-C", path, "--numeric-owner", "-xf", base("bookworm", deb.dependencies(package))], check=True)
    return path


@pytest.fixture
def root(fresh, tmp_path):
    path, upper, work = tmp_path / "root", tmp_path / "upper", tmp_path / "work"
    for directory in (path, upper, work):
        directory.mkdir()
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", f"lowerdir={fresh},upperdir={upper},workdir={work}", path], check=True)
    yield Root(path)
    subprocess.run(["umount", path], check=True)
