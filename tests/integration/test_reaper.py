"""The reaper of a daemon: what it removes and says of it, without Redis, and what it leaves."""
import re
import time
import uuid

WAIT_SECONDS = 60


def eventually(look, why):
    deadline = time.monotonic() + WAIT_SECONDS
    while not look():
        assert time.monotonic() < deadline, why
        time.sleep(0.05)


def reasons(daemon, session):
    """Why SESSION was removed, one reason a line of the log."""
    return re.findall(rf'session={session} event=(?:reaped|removed) reason="(.*?)"', daemon.log_text())


def plant_orphan(daemon):
    """The directory of a session that no record knows."""
    directory = daemon.state / "sessions" / str(uuid.uuid4())
    directory.mkdir()
    return directory


def wait_for_a_sweep(daemon):
    """Orphans go at the end of each, the one that has begun already aside."""
    for _ in range(2):
        orphan = plant_orphan(daemon)
        eventually(lambda one=orphan: not one.exists(), "no orphan is removed")
        assert reasons(daemon, orphan.name) == ["no record of it"]


def stopped(api, image):
    session = api.create(image)
    api.close(session)
    return session


def test_each_rule_removes_its_sessions_with_one_line_and_no_other(own_daemon, busybox):
    daemon = own_daemon(DAIV_SANDBOX_REAPER_ENABLED="false", DAIV_SANDBOX_REAPER_INTERVAL_SECONDS="1",
                        DAIV_SANDBOX_SESSION_GRACE_SECONDS="0", DAIV_SANDBOX_MAX_STOPPED_SESSIONS="1",
                        DAIV_SANDBOX_RUNNING_SESSION_MAX_IDLE_SECONDS="0.5")
    api = daemon.api()
    idle, first, second = api.create(busybox), stopped(api, busybox), stopped(api, busybox)
    time.sleep(2)  # each is past every limit from now on
    wait_for_a_sweep(daemon)
    assert [reasons(daemon, session) for session in (idle, first, second)] == [[], [], []], "the reaper is off"

    def restart(**settings):
        daemon.stop()
        daemon.settings.update({f"DAIV_SANDBOX_{name}": value for name, value in settings.items()})
        daemon.start()

    restart(REAPER_ENABLED="true", SESSION_GRACE_SECONDS="86400", RUNNING_SESSION_MAX_IDLE_SECONDS="0")
    eventually(lambda: reasons(daemon, first), "more stopped sessions than the limit")
    wait_for_a_sweep(daemon)
    assert reasons(daemon, first) == ["more than 1 stopped sessions, this one unused for longest"]
    assert reasons(daemon, second) == reasons(daemon, idle) == []

    restart(RUNNING_SESSION_MAX_IDLE_SECONDS="0.5")
    eventually(lambda: reasons(daemon, idle), "the idle session stays")
    assert re.fullmatch(r"running and idle for \d+s, the limit is 1s", reasons(daemon, idle)[0])
    wait_for_a_sweep(daemon)
    assert reasons(daemon, second) == []

    restart(SESSION_GRACE_SECONDS="0.5")
    eventually(lambda: reasons(daemon, second), "the session that was stopped stays")
    assert re.fullmatch(r"stopped for \d+s, grace is 1s", reasons(daemon, second)[0])
    wait_for_a_sweep(daemon)
    for session in (idle, first, second):
        assert len(reasons(daemon, session)) == 1
        assert daemon.api().status(session) == 404


def test_a_session_with_a_command_under_way_is_not_idle(own_daemon, busybox):
    daemon = own_daemon(DAIV_SANDBOX_REAPER_INTERVAL_SECONDS="1", DAIV_SANDBOX_RUNNING_SESSION_MAX_IDLE_SECONDS="1")
    api = daemon.api()
    busy, idle = api.create(busybox), api.create(busybox)
    assert api.run_one(busy, "sleep 5; echo end") == ("end\n", 0)
    eventually(lambda: reasons(daemon, idle), "the idle session stays")
    eventually(lambda: reasons(daemon, busy), "idle now, it stays")
