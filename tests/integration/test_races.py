"""Inputs that broke others: races. Documented statuses only, nothing left behind."""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import select
import socket
import time

import oci
from daemon import KEY, Refused
from oci import entry


def outcome(function, *arguments, **more):
    """What a call gave: its value, or the status that refused it."""
    try:
        return function(*arguments, **more)
    except Refused as refused:
        return refused.status


def test_a_hundred_creations_at_once(daemon, no_leaks, busybox):
    with concurrent.futures.ThreadPoolExecutor(100) as pool:
        sessions = list(pool.map(lambda _: daemon.api().create(busybox), range(100)))
        assert len(set(sessions)) == 100
        list(pool.map(lambda session: daemon.api().close(session, force=True), sessions))


def test_removal_during_a_command(daemon, no_leaks, api, busybox):
    session = api.create(busybox)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        running = pool.submit(outcome, daemon.api().run_one, session, "echo begun; sleep 2; echo end")
        closing = pool.submit(outcome, daemon.api().close, session, force=True)
        result = running.result()
        assert result in (404, 409) or result[0].startswith("begun"), result
        assert closing.result() in (None, 409)
    api.close(session, force=True)
    assert api.status(session) == 404


def test_removal_during_a_seed(daemon, no_leaks, api, busybox):
    session = api.create(busybox)
    archive = oci.tar(*(entry(f"f{number}", os.urandom(1000)) for number in range(2000)))
    with concurrent.futures.ThreadPoolExecutor() as pool:
        seeding = pool.submit(daemon.api().seed, session, archive)
        closing = pool.submit(outcome, daemon.api().close, session, force=True)
        assert seeding.result()[0] in (204, 404, 409)
        assert closing.result() in (None, 409)
    api.close(session, force=True)


def test_double_removal(daemon, no_leaks, api, busybox):
    for _ in range(10):
        session = api.create(busybox)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            for done in [pool.submit(outcome, daemon.api().close, session, force=True) for _ in range(4)]:
                assert done.result() in (None, 404, 409)
        assert api.status(session) == 404


def test_closing_and_reopening_at_once(daemon, no_leaks, api, busybox):
    session = api.create(busybox)
    api.run(session, "echo kept > f")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(outcome, daemon.api().close, session) for _ in range(10)]
        calls += [pool.submit(daemon.api().status, session) for _ in range(10)]
        assert {call.result() for call in calls} <= {None, 204, 409}
    assert api.output(session, "cat f") == "kept\n"
    api.close(session, force=True)


def test_commands_of_one_session_queue_in_order(daemon, no_leaks, api, busybox):
    session = api.create(busybox)
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        results = list(pool.map(lambda n: daemon.api().run_one(session, f"echo {n} >> log; echo {n}"), range(20)))
    assert results == [(f"{n}\n", 0) for n in range(20)]
    assert len(api.output(session, "cat log").split()) == 20
    api.close(session, force=True)


def test_a_busy_session_is_a_409_after_the_wait(own_daemon, busybox):
    daemon = own_daemon(DAIV_SANDBOX_SESSION_LOCK_WAIT_SECONDS="0.5")
    session = daemon.api().create(busybox)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        running = pool.submit(daemon.api().run_one, session, "echo begun > f; sleep 3")
        # The second command runs only if it came first: then it waits for nobody, and the next one is tried.
        body = json.dumps({"commands": ["true"]})
        answers = [daemon.api().raw("POST", f"/session/{session}/", body, {"Content-Type": "application/json"}) for _ in range(3)]
        assert (409, b'{"detail":"Session is busy"}') in answers
        assert {status for status, _ in answers} <= {200, 409}
        assert running.result() == ("", 0)
    daemon.api().close(session, force=True)


def wait_until_read(daemon, client):
    """Until the daemon has read what CLIENT, a socket, sent, and has gone on from there."""
    ends = f":{daemon.port:04X} 0100007F:{client.getsockname()[1]:04X} "
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        lines = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines() if ends in line]
        if lines and lines[0][4].endswith(":00000000"):  # its receive queue
            daemon.api().raw("GET", "/-/health/")
            return
        time.sleep(0.01)  # a queue that empties tells nobody
    raise AssertionError("the daemon does not read a request")


def test_requests_on_one_session_are_served_in_the_order_of_their_coming(daemon, no_leaks, api, busybox):
    session = api.create(busybox)
    with contextlib.ExitStack() as clients:
        def send(command):
            client = clients.enter_context(socket.create_connection(("127.0.0.1", daemon.port), timeout=120))
            body = json.dumps({"commands": [command]})
            client.sendall(f"POST /session/{session}/ HTTP/1.1\r\nHost: x\r\nX-API-Key: {KEY}\r\n"
                           f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
            wait_until_read(daemon, client)
            return client

        # The others come while the first one holds the session: one of these times at the latest.
        for seconds in (2, 10, 40):
            first = send(f"sleep {seconds}; : > order")
            others = [send(f"echo {number} >> order") for number in range(12)]
            all_came_meanwhile = not select.select([first], [], [], 0)[0]
            for client in [first, *others]:
                assert client.recv(1000).startswith(b"HTTP/1.1 200")
            assert api.output(session, "cat order").split() == [str(number) for number in range(12)]
            if all_came_meanwhile:
                break
        assert all_came_meanwhile
    api.close(session, force=True)


def test_prune_while_creating(daemon, no_leaks, api, busybox, push):
    import images
    reference = push(images.busybox(None, oci.Layer.of(entry("opt/prune", "x"))), "prune-race")
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        pruning = [pool.submit(daemon.cli, "prune") for _ in range(3)]
        for _ in range(10):
            session = api.create(reference)
            assert api.output(session, "cat /opt/prune") == "x"
            api.close(session, force=True)
        assert [done.result().returncode for done in pruning] == [0, 0, 0]
