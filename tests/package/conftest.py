"""The package, built from the tree's own objects, and a root of a fresh Debian to install it in."""
import os
import pathlib
import subprocess

import deb
import pytest
from debian_root import archive, own_suite


def pytest_configure(config):
    if os.geteuid() != 0:
        raise pytest.UsageError("these tests need root: sudo ./dev test")


def pytest_addoption(parser):
    parser.addoption("--package", help="a .deb that was built before")
    parser.addoption("--suite", default=own_suite(), help="the Debian release to build it on, and to install it in")


@pytest.fixture(scope="session")
def suite(request):
    return request.config.getoption("--suite")


@pytest.fixture(scope="session")
def package(request, suite):
    """The path of the .deb."""
    if given := request.config.getoption("--package"):
        return pathlib.Path(given).resolve()
    return deb.build(suite)


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
def fresh(package, suite, tmp_path_factory):
    """The directory of a Debian without the package; never written to."""
    path = tmp_path_factory.mktemp("fresh")
    subprocess.run(["tar", "-C", path, "--numeric-owner", "-xf", archive(suite, deb.dependencies(package))], check=True)
    return path


@pytest.fixture
def root(fresh, tmp_path):
    path, upper, work = tmp_path / "root", tmp_path / "upper", tmp_path / "work"
    for directory in (path, upper, work):
        directory.mkdir()
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", f"lowerdir={fresh},upperdir={upper},workdir={work}", path], check=True)
    yield Root(path)
    subprocess.run(["umount", path], check=True)
