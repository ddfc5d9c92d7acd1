"""Two daemons on one host that were given the same uid ranges, cgroup and addresses: neither disturbs the other."""
import concurrent.futures

import pytest

import daemon as daemons
import inventory
from egress_fixtures import STANDARD, curl, make_ca
from redis_server import RedisServer

SETTLE_SECONDS = 30
ROUNDS = 3


@pytest.fixture
def pair(build, origins):
    """Two daemons that share everything but their directories and ports, a Redis too."""
    with RedisServer() as redis:
        made = [daemons.Daemon(build, {**origins.settings, "DAIV_SANDBOX_REDIS_URL": f"redis://127.0.0.1:{redis.port}"})
                for _ in range(2)]
        first, second = made
        second.uid_start, second.cgroup = first.uid_start, first.cgroup
        for one in made:
            one.settings.update({"DAIV_SANDBOX_UID_START": str(first.uid_start), "DAIV_SANDBOX_CGROUP_ROOT": str(first.cgroup)})
            one.settings.update(make_ca(one.build, one.directory))
        try:
            yield [one.start() for one in made]
        finally:
            for one in made:
                one.remove()


def first_uid(api, session):
    return int(api.output(session, "cat /proc/self/uid_map").split()[1])


def use(daemon, image):
    """Sessions with and without egress, one after the other and beside each other."""
    api = daemon.api()
    for turn in range(ROUNDS):
        plain, networked = api.create(image), api.create(image, egress=STANDARD)
        api.run(plain, f"echo {turn} > f")
        assert curl(api, networked, "http://allowed.test/x") == ("GET allowed.test /x\n", 0)
        api.close(plain)
        assert api.output(plain, "cat f") == f"{turn}\n"
        for session in (plain, networked):
            api.close(session, force=True)


def test_both_work_at_once_and_leave_nothing(pair, debian):
    for one in pair:  # the image is pulled, so that what is new is of sessions
        one.api().close(one.api().create(debian), force=True)
    before = [inventory.take(one) for one in pair]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for done in [pool.submit(use, one, debian) for one in pair for _ in range(2)]:
            done.result()
    for one, earlier in zip(pair, before):
        assert not inventory.new_since(one, earlier, SETTLE_SECONDS)


def test_a_start_leaves_the_sessions_of_the_other_alone(pair, debian):
    first, second = pair
    session = first.api().create(debian, egress=STANDARD)
    first.api().run(session, "echo kept > /tmp/f; sleep 600 >/dev/null 2>&1 &")
    processes = set(daemons.processes_of(first.uids))
    second.kill()
    second.start()
    assert set(daemons.processes_of(first.uids)) >= processes, "its processes live on"
    assert curl(first.api(), session, "http://allowed.test/x") == ("GET allowed.test /x\n", 0)
    other = second.api().create(debian)
    assert first_uid(second.api(), other) != first_uid(first.api(), session), "one range, one session"
    first.kill()
    second.stop()
    second.start()  # while the first is away its sessions are its own all the same
    assert set(daemons.processes_of(first.uids)) >= processes
    first.start()
    assert first.api().output(session, "cat /tmp/f") == "kept\n"
    first.api().close(session, force=True)
    second.api().close(other, force=True)


def test_a_session_of_the_other_is_not_found(pair, debian):
    first, second = pair
    session = first.api().create(debian)
    assert second.api().status(session) == 404
    second.api().close(session, force=True)
    assert first.api().run_one(session, "echo here") == ("here\n", 0)
    first.api().close(session, force=True)


@pytest.mark.parametrize("shared", ["STATE_DIR", "RUNTIME_DIR"])
def test_a_second_daemon_on_a_directory_of_the_first_is_refused_and_harms_nothing(build, busybox, shared):
    first = daemons.Daemon(build)
    first.settings.update(make_ca(build, first.directory))
    second = daemons.Daemon(build, {f"DAIV_SANDBOX_{shared}": first.settings[f"DAIV_SANDBOX_{shared}"]})
    second.settings.update(make_ca(build, second.directory))
    try:
        api = first.start().api()
        session = api.create(busybox, egress=STANDARD)
        assert api.run_one(session, "sleep 600 >/dev/null 2>&1 & echo $! > pid")[1] == 0
        policies = sorted((first.runtime / "egress").iterdir())
        assert policies
        with pytest.raises(RuntimeError) as refused:
            second.start()
        assert second.process.wait(SETTLE_SECONDS) == 1
        assert f"DAIV_SANDBOX_{shared}" in str(refused.value) and "another daiv-sandbox" in str(refused.value)
        assert sorted((first.runtime / "egress").iterdir()) == policies
        assert session in first.cli("ps").stdout, "the control socket is the first's"
        assert api.run_one(session, "kill -0 $(cat pid)") == ("", 0)
        first.kill()
        first.start()
        assert first.api().run_one(session, "kill -0 $(cat pid)") == ("", 0), "its policy is there after a restart"
        first.api().close(session, force=True)
    finally:
        second.process = None
        second.remove()
        first.remove()
