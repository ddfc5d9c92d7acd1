"""State on disk and in the kernel agree after a crash at each named point of each phase (os/crash_point.hpp).

Run against a build with -Dattack_switches=true. A point is in the front, in the process that the broker forks for an
operation, or in PID 1 of a sandbox before it is the agent. With ":parent" the broker dies there and its operation goes on.
"""
import itertools
import pathlib
import signal

import pytest

import conftest
import daemon as daemons
import images
from crash_trial import Host, Trial
from egress_fixtures import make_ca
from oci import Layer, entry

BROKER_CREATION = ["claimed", "directory", "listens", "cgroup", "cloned", "started", "runs", "record_unfinished", "recorded"]
POINTS = {
    "create_egress": ["front.egress.unfinished", "front.egress.saved", "front.create.policy_saved", "broker.create.network",
                      "broker.create.network:parent", "broker.create.linked", "broker.create.linked:parent"],
    "create": ["front.create.runs", "front.create.recorded", "init.begin", "init.contained", "init.before_agent",
               *(f"broker.create.{point}" for point in BROKER_CREATION),
               *(f"broker.create.{point}:parent" for point in BROKER_CREATION)],
    "reopen": ["front.start.runs", "front.start.recorded",
               *(f"broker.create.{point}{who}" for point in ("claimed", "cgroup", "runs", "record_unfinished") for who in ("", ":parent"))],
    "close": ["front.stop.terminated", "front.stop.killed", "broker.end.killed", "broker.end.killed:parent",
              "broker.end.socket_removed"],
    "remove": ["front.remove.forgotten", "front.remove.removed", "broker.end.killed", "broker.end.socket_removed:parent",
               "broker.remove.ended", "broker.remove.ended:parent", "broker.remove.in_trash", "broker.remove.in_trash:parent"],
    "seed": ["front.seed.visible", "front.seed.marked"],
    "egress": ["front.egress.unfinished", "front.egress.saved"],
    "pull": ["front.pull.unpacked", "front.pull.layer_recorded", "front.pull.layers_obtained",
             *(f"broker.unpack.{point}{who}" for point in ("begin", "marked", "stored") for who in ("", ":parent"))],
    "prune": ["front.prune.forgotten", "broker.prune.in_trash", "broker.prune.in_trash:parent"],
}
CASES = [(operation, point) for operation, points in POINTS.items() for point in points]
numbers = itertools.count()


@pytest.fixture(scope="module")
def host(request, busybox):
    tree = request.config.getoption("--attack-build")
    if not tree:
        pytest.skip("no build with -Dattack_switches=true was given")
    daemon = daemons.Daemon(pathlib.Path(tree).resolve())
    daemon.settings.update(make_ca(daemon.build, daemon.directory))
    with daemon:
        yield Host(daemon, busybox)


class PointTrial(Trial):
    def __init__(self, host, operation, point, push):
        super().__init__(host, 0, "front")
        self.operation, self.point, self.delay = operation, point, 0
        self.push = push

    def prepare(self):
        if self.operation in ("pull", "prune"):
            number = next(numbers)
            layer = Layer.of(entry("opt"), entry("opt/point", f"{self.point} {number}"))
            # A name of its own: a pull that a crash cut short leaves what had the name before.
            self.image = self.push(images.busybox(None, layer), f"crash-point-{number}")
            if self.operation == "prune":
                self.daemon.cli("pull", self.image)
        else:
            super().prepare()
        self.daemon.stop()
        self.daemon.settings["DAIV_SANDBOX_CRASH_AT"] = self.point
        self.daemon.start()

    def call(self, api):
        if self.operation == "pull":
            return self.must(self.daemon.cli("pull", self.image))
        if self.operation == "prune":
            return self.must(self.daemon.cli("prune", "--all"))
        return super().call(api)

    def must(self, done):
        if done.returncode != 0:
            raise daemons.Refused(done.returncode, done.stderr.encode())

    def kill(self):
        """It is the point that kills: this only waits for it, and stops what is left of the daemon."""

    def run(self):
        self.prepare()
        self.operate()
        crashed = self.daemon.process.poll() is not None
        assert crashed or not self.answered, "the point was not reached"
        if not crashed:
            self.daemon.stop(signal.SIGTERM)
        self.daemon.process = None
        del self.daemon.settings["DAIV_SANDBOX_CRASH_AT"]
        self.daemon.start()
        self.check()

    def check_kept(self, api, listed):
        if self.operation not in ("pull", "prune"):
            return super().check_kept(api, listed)
        session = api.create(self.image)
        seen = api.output(session, "cat /opt/point")
        api.close(session, force=True)
        assert seen.startswith(self.point)
        return None


@pytest.mark.parametrize("operation,point", CASES, ids=[f"{operation}-{point}" for operation, point in CASES])
def test_a_crash_at_a_named_point(host, push, operation, point):
    PointTrial(host, operation, point, push).run()


def test_every_named_point_is_crashed_at():
    found = set()
    for folder in ("sessions", "runtime", "images", "agent"):
        for source in (conftest.ROOT / folder).rglob("*.cpp"):
            found |= {part.split('"')[0] for part in source.read_text().split('crash_point("')[1:]}
    assert found == {point.removesuffix(":parent") for _, point in CASES}
