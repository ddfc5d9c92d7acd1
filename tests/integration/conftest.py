"""Fixtures: a real registry with real images, a daemon of the build tree, sessions, and a check for leaks after each test."""
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import daemon as daemons  # noqa: E402
import images  # noqa: E402
import inventory  # noqa: E402
import oci  # noqa: E402
import origins as origin_servers  # noqa: E402
import registry as registries  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRASH_SECONDS = 60
IMAGE_CACHE = ROOT / "build" / "images"


def pytest_addoption(parser):
    parser.addoption("--build", default=str(ROOT / "build"), help="the build tree whose daemon is tested")
    parser.addoption("--attack-build", default="", help="a build with -Dattack_switches=true")


def pytest_configure(config):
    config.addinivalue_line("markers", "soak: long; runs with ./dev test --full")
    config.addinivalue_line("markers", "speed: measures time or memory; not under a sanitizer, which needs more of both")
    config.addinivalue_line("markers", "leaves_traces: plants leaks itself, so is not checked for them")
    if os.geteuid() != 0:
        raise pytest.UsageError("these tests need root: sudo ./dev test")


def needs_attack_build(item):
    """Tests of a defence that is off, and of crashes at named points: the parts attack and crash-points run them."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    return bool(parameters.get("defence")) or "host" in item.fixturenames and item.path.name == "test_crash_points.py"


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--attack-build"):
        items[:] = [item for item in items if not needs_attack_build(item)]


@pytest.fixture(scope="session")
def build(request):
    return pathlib.Path(request.config.getoption("--build")).resolve()


@pytest.fixture(scope="session")
def registry():
    with registries.Registry() as running:
        yield running


@pytest.fixture(scope="session")
def debian(registry):
    """The reference of a Debian with bash, git, curl and python3."""
    return oci.push(images.get("debian", IMAGE_CACHE), registry.address, "debian", "bookworm-slim")


@pytest.fixture(scope="session")
def busybox(registry):
    return oci.push(images.get("busybox", IMAGE_CACHE), registry.address, "busybox", "latest")


@pytest.fixture(scope="session")
def push(registry):
    """push(image, name): puts a made-up image into the registry and gives its reference."""
    return lambda image, name: oci.push(image, registry.address, name, "latest")


@pytest.fixture(scope="module")
def origins():
    """Web servers in a network namespace of their own, for sessions with egress."""
    with origin_servers.Origins() as running:
        yield running


@pytest.fixture(scope="session")
def daemon(build):
    running = daemons.Daemon(build)
    with running:
        yield running
        assert running.process.poll() is None, f"the daemon died:\n{running.log_text()[-4000:]}"


@pytest.fixture
def own_daemon(build):
    """own_daemon(**settings): a daemon of the test's own, removed at its end."""
    made = []

    def make(**settings):
        made.append(daemons.Daemon(build, settings))
        return made[-1].start()

    yield make
    for one in made:
        one.remove()


@pytest.fixture
def api(daemon):
    return daemon.api()


@pytest.fixture(autouse=True)
def no_leaks(request):
    """After each test that used the shared daemon, nothing of its sessions may be left on the host."""
    if "daemon" not in request.fixturenames or request.node.get_closest_marker("leaves_traces"):
        yield
        return
    daemon = request.getfixturevalue("daemon")
    before = inventory.take(daemon)
    yield
    # Large writable layers are deleted in the background, on a busy disk for longer than namespaces live.
    leaked = inventory.new_since(daemon, before, TRASH_SECONDS)
    assert not leaked, f"left behind: {leaked}"


@pytest.fixture
def start(no_leaks, api):
    """start(image, **create): a session that is removed at the end of the test, before the check for leaks."""
    sessions = []

    def make(image, **create):
        sessions.append(api.create(image, **create))
        return sessions[-1]

    yield make
    cleaner = daemons.Api(api.port)
    for session in sessions:
        cleaner.close(session, force=True)


@pytest.fixture
def session(start, debian):
    return start(debian)


@pytest.fixture
def small(start, busybox):
    """A session on busybox."""
    return start(busybox)
