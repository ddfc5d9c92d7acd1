"""Locks and use times shared in a real Redis, beside a peer that does with its keys what the Docker variant does."""
import concurrent.futures
import contextlib
import os
import pathlib
import signal
import time
import uuid

import pytest

from daemon import Refused, processes_of
from redis_server import ACTIVITY, COMPARE_AND_DELETE, LEADER, LOCK, Certificates, RedisServer

WAIT_SECONDS = 60
PASSWORD = "p%s/:@ hush-hush"
ENCODED = "p%25s%2F%3A%40%20hush-hush"


@pytest.fixture(scope="module")
def redis():
    with RedisServer() as running:
        yield running


@pytest.fixture
def shared(redis, own_daemon):
    """A daemon on the Redis of this file, whose lock wait is short."""
    redis.cli("FLUSHALL")
    return own_daemon(DAIV_SANDBOX_REDIS_URL=f"redis://127.0.0.1:{redis.port}", DAIV_SANDBOX_SESSION_LOCK_WAIT_SECONDS="1")


def eventually(look, why):
    deadline = time.monotonic() + WAIT_SECONDS
    while not look():
        assert time.monotonic() < deadline, why
        time.sleep(0.05)


def status_of(api, session, command="true"):
    try:
        api.run(session, command)
        return 200
    except Refused as refused:
        return refused.status


LONG = "sleep 86399; echo end"


def sleeps(daemon):
    for pid in processes_of(daemon.uids):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:2] == [b"sleep", b"86399"]:
                yield pid


def finish(daemon):
    """Ends the sleep of LONG from outside, since the session's lock is held; it may begin only after the lock is taken."""
    eventually(lambda: list(sleeps(daemon)), "the command does not begin")
    for pid in sleeps(daemon):
        os.kill(pid, signal.SIGTERM)


def assert_ended_well(running):
    output, code = running.result(WAIT_SECONDS)
    # The shell may say before that the sleep was terminated.
    assert output.endswith("end\n") and code == 0


def test_an_operation_holds_the_lock_of_its_session_and_frees_it(shared, redis, busybox):
    api = shared.api()
    session = api.create(busybox)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        running = pool.submit(shared.api().run_one, session, LONG)
        eventually(lambda: redis.cli("GET", LOCK + session), "no lock in Redis")
        assert 0 < int(redis.cli("PTTL", LOCK + session)) <= 900_000
        assert redis.cli("SET", LOCK + session, "other", "NX", "PX", "1000") == "", "a peer does not get it"
        assert status_of(api, session) == 409
        assert running.running()
        finish(shared)
        assert_ended_well(running)
    eventually(lambda: redis.cli("EXISTS", LOCK + session) == "0", "the lock stays")
    api.close(session, force=True)


def test_a_lock_of_the_docker_variant_is_respected(shared, redis, busybox):
    api = shared.api()
    session = api.create(busybox)
    assert redis.cli("SET", LOCK + session, "token-of-another", "NX", "PX", "600000") == "OK"
    assert status_of(api, session) == 409
    with pytest.raises(Refused) as refused:
        api.close(session, force=True)
    assert refused.value.status == 409
    assert redis.cli("GET", LOCK + session) == "token-of-another", "it was not taken away"
    assert api.status(session) == 204, "whether it exists can be asked at any time"
    assert redis.cli("EVAL", COMPARE_AND_DELETE, 1, LOCK + session, "token-of-another") == "1"
    assert status_of(api, session) == 200
    api.close(session, force=True)


def test_a_waiting_operation_goes_on_when_the_peer_lets_go(redis, own_daemon, busybox):
    daemon = own_daemon(DAIV_SANDBOX_REDIS_URL=f"redis://127.0.0.1:{redis.port}", DAIV_SANDBOX_SESSION_LOCK_WAIT_SECONDS="120")
    api = daemon.api()
    session = api.create(busybox)
    redis.cli("SET", LOCK + session, "other", "NX", "PX", "600000")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        waiting = pool.submit(daemon.api().run_one, session, "echo mine")
        with pytest.raises(concurrent.futures.TimeoutError):
            waiting.result(1)
        redis.cli("EVAL", COMPARE_AND_DELETE, 1, LOCK + session, "other")
        assert waiting.result(WAIT_SECONDS) == ("mine\n", 0)
    api.close(session, force=True)


def test_a_held_lock_is_refreshed_and_its_loss_is_logged_and_no_more(redis, own_daemon, busybox):
    daemon = own_daemon(DAIV_SANDBOX_REDIS_URL=f"redis://127.0.0.1:{redis.port}",
                        DAIV_SANDBOX_SESSION_LOCK_TTL_SECONDS="60", DAIV_SANDBOX_SESSION_LOCK_REFRESH_SECONDS="0.2")
    api = daemon.api()
    session = api.create(busybox)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        running = pool.submit(daemon.api().run_one, session, LONG)
        eventually(lambda: redis.cli("GET", LOCK + session), "no lock in Redis")
        redis.cli("PEXPIRE", LOCK + session, 30_000)
        eventually(lambda: int(redis.cli("PTTL", LOCK + session)) > 30_000, "it is not refreshed")
        redis.cli("SET", LOCK + session, "a-thief", "PX", "600000")
        eventually(lambda: "event=lock_lost" in daemon.log_text(), "the loss is not logged")
        finish(daemon)
        assert_ended_well(running)
    assert redis.cli("GET", LOCK + session) == "a-thief", "the other's lock stays"
    redis.cli("DEL", LOCK + session)
    api.close(session, force=True)


def test_uses_are_told_and_forgotten_with_the_session(shared, redis, busybox):
    api = shared.api()
    session = api.create(busybox)
    eventually(lambda: redis.cli("GET", ACTIVITY + session), "no use is told")
    assert abs(int(redis.cli("GET", ACTIVITY + session)) - time.time()) < 600
    assert 3600 < int(redis.cli("TTL", ACTIVITY + session)) <= 28_800, "twice the idle window"
    redis.cli("SET", ACTIVITY + session, "1")
    api.run(session, "true")
    eventually(lambda: redis.cli("GET", ACTIVITY + session) != "1", "a command is no use")
    redis.cli("SET", ACTIVITY + session, "1")
    assert api.status(session) == 204
    eventually(lambda: redis.cli("GET", ACTIVITY + session) != "1", "a look is no use")
    api.close(session, force=True)
    eventually(lambda: redis.cli("EXISTS", ACTIVITY + session, LOCK + session) == "0", "keys stay")


def test_without_redis_what_needs_the_lock_is_503_and_recovers_by_itself(own_daemon, busybox):
    with RedisServer() as redis:
        daemon = own_daemon(DAIV_SANDBOX_REDIS_URL=f"redis://127.0.0.1:{redis.port}")
        api = daemon.api()
        session = api.create(busybox)
        api.run(session, "echo kept > f")
        redis.kill()
        assert status_of(api, session) == 503
        assert api.status(session) == 204
        other = api.create(busybox)  # nobody else can know it yet, so it needs no lock
        redis.start()
        eventually(lambda: status_of(api, session) == 200, "it does not recover")
        assert api.output(session, "cat f") == "kept\n"
        redis.freeze()
        assert status_of(api, session) == 503, "a Redis that hangs is away as well"
        redis.thaw()
        eventually(lambda: status_of(api, session) == 200, "it does not recover")
        for one in (session, other):
            api.close(one, force=True)
        log = daemon.log_text()
        assert log.count("event=redis_unavailable") == 2, "once for each time"


def test_without_redis_what_is_the_daemons_own_is_swept_and_redis_is_spoken_of_twice(own_daemon, busybox):
    with RedisServer() as redis:
        daemon = own_daemon(DAIV_SANDBOX_REDIS_URL=f"redis://127.0.0.1:{redis.port}", DAIV_SANDBOX_REAPER_INTERVAL_SECONDS="1",
                            DAIV_SANDBOX_RUNNING_SESSION_MAX_IDLE_SECONDS="1")
        redis.kill()
        idle = daemon.api().create(busybox)
        for _ in range(4):  # one a sweep
            orphan = daemon.state / "sessions" / str(uuid.uuid4())
            orphan.mkdir()
            eventually(lambda one=orphan: not one.exists(), "no orphan is removed")
        assert "event=reaped" not in daemon.log_text(), "whether others use it can't be asked"
        redis.start()
        eventually(lambda: f"session={idle} event=reaped" in daemon.log_text(), "the idle session stays")
        log = daemon.log_text()
        assert log.count("event=redis_unavailable") == 1 and " E " not in log and "_failed" not in log, log
        assert "event=redis_connected" in log.partition("event=redis_unavailable")[2]


def test_a_command_under_way_outlives_redis(own_daemon, busybox):
    with RedisServer() as redis:
        daemon = own_daemon(DAIV_SANDBOX_REDIS_URL=f"redis://127.0.0.1:{redis.port}")
        api = daemon.api()
        session = api.create(busybox)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            running = pool.submit(daemon.api().run_one, session, LONG)
            eventually(lambda: redis.cli("GET", LOCK + session), "no lock in Redis")
            redis.kill()
            finish(daemon)
            assert_ended_well(running)
        redis.start()
        api.close(session, force=True)


def test_a_killed_daemon_takes_its_own_lock_over(redis, own_daemon, busybox):
    daemon = own_daemon(DAIV_SANDBOX_REDIS_URL=f"redis://127.0.0.1:{redis.port}", DAIV_SANDBOX_SESSION_LOCK_WAIT_SECONDS="1")
    api = daemon.api()
    session = api.create(busybox)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        running = pool.submit(daemon.api().run_one, session, "sleep 600")
        eventually(lambda: redis.cli("GET", LOCK + session), "no lock in Redis")
        daemon.kill()
        with pytest.raises(Exception):
            running.result()
    assert redis.cli("EXISTS", LOCK + session) == "1"
    daemon.start()
    assert status_of(daemon.api(), session) == 200
    daemon.api().close(session, force=True)


def test_password_user_and_database_are_used_and_never_shown(own_daemon, busybox):
    rights = "+set +get +del +eval +pexpire +select +auth"
    with RedisServer(f'user sandbox on ">{PASSWORD}" ~daiv-sandbox:* {rights}', "user default off") as redis:
        daemon = own_daemon(DAIV_SANDBOX_REDIS_URL=f"redis://sandbox:{ENCODED}@127.0.0.1:{redis.port}/3")
        api = daemon.api()
        session = api.create(busybox)
        assert status_of(api, session) == 200
        api.close(session, force=True)
        assert "event=redis_connected" in daemon.log_text()
        daemon.stop()
        daemon.settings["DAIV_SANDBOX_REDIS_URL"] = f"redis://sandbox:wrong-{ENCODED}@127.0.0.1:{redis.port}/3"
        daemon.start()
        session = daemon.api().create(busybox)
        assert status_of(daemon.api(), session) == 503
        assert "WRONGPASS" in daemon.log_text()
        assert "hush" not in daemon.log_text()


def test_a_password_alone_and_the_chosen_database(own_daemon, busybox):
    with RedisServer(f'requirepass "{PASSWORD}"') as redis:
        redis.login = {"REDISCLI_AUTH": PASSWORD}
        daemon = own_daemon(DAIV_SANDBOX_REDIS_URL=f"redis://:{ENCODED}@127.0.0.1:{redis.port}/5")
        api = daemon.api()
        session = api.create(busybox)
        assert status_of(api, session) == 200
        eventually(lambda: redis.cli("-n", 5, "EXISTS", ACTIVITY + session) == "1", "not in database 5")
        assert redis.cli("-n", 0, "DBSIZE") == "0"
        api.close(session, force=True)
        assert "hush" not in daemon.log_text()


def test_tls_with_a_ca_of_ones_own(own_daemon, busybox, tmp_path):
    certificates = Certificates(tmp_path)
    with RedisServer(tls=certificates) as redis:
        daemon = own_daemon()
        ca = daemon.directory / "redis-ca.pem"
        ca.write_bytes(certificates.ca.read_bytes())
        ca.chmod(0o644)
        daemon.stop()
        daemon.settings["DAIV_SANDBOX_REDIS_URL"] = f"rediss://127.0.0.1:{redis.port}?ssl_ca_certs={ca}"
        daemon.start()
        session = daemon.api().create(busybox)
        assert status_of(daemon.api(), session) == 200
        eventually(lambda: redis.cli("EXISTS", ACTIVITY + session) == "1", "no use is told")
        daemon.api().close(session, force=True)
        daemon.stop()
        daemon.settings["DAIV_SANDBOX_REDIS_URL"] = f"rediss://127.0.0.1:{redis.port}"
        daemon.start()
        session = daemon.api().create(busybox)
        assert status_of(daemon.api(), session) == 503, "a certificate that nobody trusts"


def test_a_tls_certificate_for_another_host_is_refused(own_daemon, busybox, tmp_path):
    certificates = Certificates(tmp_path, address="198.18.0.9")
    with RedisServer(tls=certificates) as redis:
        daemon = own_daemon()
        ca = daemon.directory / "redis-ca.pem"
        ca.write_bytes(certificates.ca.read_bytes())
        ca.chmod(0o644)
        daemon.stop()
        daemon.settings["DAIV_SANDBOX_REDIS_URL"] = f"rediss://127.0.0.1:{redis.port}?ssl_ca_certs={ca}"
        daemon.start()
        session = daemon.api().create(busybox)
        assert status_of(daemon.api(), session) == 503


def test_the_reaper_waits_for_the_leader_and_respects_locks_and_uses(redis, own_daemon, busybox):
    redis.cli("FLUSHALL")
    redis.cli("SET", LEADER, "another-daemon", "PX", "600000")
    daemon = own_daemon(DAIV_SANDBOX_REDIS_URL=f"redis://127.0.0.1:{redis.port}", DAIV_SANDBOX_REAPER_INTERVAL_SECONDS="1",
                        DAIV_SANDBOX_SESSION_GRACE_SECONDS="0", DAIV_SANDBOX_RUNNING_SESSION_MAX_IDLE_SECONDS="2")
    api = daemon.api()
    locked, used, idle = (api.create(busybox) for _ in range(3))
    for session in (locked, used, idle):
        eventually(lambda one=session: redis.cli("EXISTS", ACTIVITY + one) == "1", "no use is told")
    redis.cli("SET", LOCK + locked, "other", "PX", "600000")
    redis.cli("SET", ACTIVITY + used, str(int(time.time()) + 3600))
    eventually(lambda: "event=sweep_left_out" in daemon.log_text(), "it does not wait for the leader")
    assert "event=reaped" not in daemon.log_text()
    redis.cli("DEL", LEADER)
    eventually(lambda: f"session={idle} event=reaped" in daemon.log_text(), "the idle session stays")
    # One sweep planned them all.
    assert daemon.log_text().count("event=reaped") == 1
    redis.cli("DEL", LOCK + locked)
    for session in (locked, used):
        api.close(session, force=True)
