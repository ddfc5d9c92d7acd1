"""Sessions outlive the daemon: a restart, a kill -9 and two daemons on one machine."""
import concurrent.futures
import http.client
import json
import os
import signal
import threading
import time

import pytest

import inventory
import oci
from daemon import KEY, Refused, multipart, processes_of


def wait_gone(pid):
    deadline = time.monotonic() + 10
    while os.path.exists(f"/proc/{pid}") and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not os.path.exists(f"/proc/{pid}"), "still there"


def settled(look):
    """What LOOK gives once it gives the same for half a second: what a command started may take a moment to end."""
    last, since = look(), time.monotonic()
    while time.monotonic() - since < 0.5:
        time.sleep(0.05)
        if (now := look()) != last:
            last, since = now, time.monotonic()
    return last


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["terminated", "killed"])
def test_a_restart_finds_running_sessions_again(own_daemon, busybox, how):
    daemon = own_daemon()
    api = daemon.api()
    session = api.create(busybox)
    api.run(session, "echo kept > f; sleep 600 & echo")
    sleeping = settled(lambda: set(processes_of(daemon.uids)))
    broker = daemon.children()
    daemon.stop(how)
    for pid in broker:
        wait_gone(pid)
    assert set(processes_of(daemon.uids)) == sleeping, "the sandbox lives on without a daemon"
    daemon.start()
    api = daemon.api()
    assert api.output(session, "cat f; cat /proc/[0-9]*/comm | grep -c sleep") == "kept\n1\n"
    assert set(processes_of(daemon.uids)) == sleeping, "adopted, not started again"
    api.close(session, force=True)
    assert list(processes_of(daemon.uids)) == []


def test_a_session_closed_before_the_restart_reopens_after_it(own_daemon, busybox):
    daemon = own_daemon()
    api = daemon.api()
    session = api.create(busybox)
    api.run(session, "echo kept > f")
    api.close(session)
    daemon.kill()
    daemon.start()
    assert daemon.api().output(session, "cat f") == "kept\n"
    daemon.api().close(session, force=True)


def test_sessions_keep_their_range_where_fewer_are_given_now(own_daemon, busybox):
    daemon = own_daemon()
    api = daemon.api()
    sessions = [api.create(busybox) for _ in range(3)]
    for session in sessions:
        api.run(session, "echo kept > f")
    api.close(sessions[1])
    api.close(sessions[2])
    daemon.stop()
    daemon.settings["DAIV_SANDBOX_UID_COUNT"] = "2"
    daemon.start()
    api = daemon.api()
    for session in sessions:
        assert api.output(session, "cat f") == "kept\n"
    assert len({api.output(session, "cat /proc/self/uid_map") for session in sessions}) == 3
    with pytest.raises(Refused) as refused:
        api.create(busybox)
    assert refused.value.status == 503 and "DAIV_SANDBOX_UID_COUNT" in refused.value.detail
    for session in sessions:
        api.close(session, force=True)
    api.close(api.create(busybox), force=True)


def test_requests_that_lose_the_broker_are_worth_a_retry(own_daemon, busybox):
    """The broker is halted, so that all of them wait for it when it is killed."""
    daemon = own_daemon()
    api = daemon.api()
    names = ("DELETE", "DELETE for good", "GET", "run", "fs", "seed")
    sessions = {name: api.create(busybox) for name in names}
    for name in ("GET", "run", "fs", "seed"):
        api.close(sessions[name])
    path = {name: f"/session/{session}/" for name, session in sessions.items()}
    form, content_type = multipart({"repo_archive": oci.tar(oci.entry("seeded", "x"))})
    requests = {
        "POST": ("POST", "/session/", json.dumps({"base_image": busybox}), "application/json"),
        "DELETE": ("DELETE", path["DELETE"], None, ""),
        "DELETE for good": ("DELETE", path["DELETE for good"] + "?force=true", None, ""),
        "GET": ("GET", path["GET"], None, ""),
        "run": ("POST", path["run"], json.dumps({"commands": ["true"]}), "application/json"),
        "fs": ("POST", path["fs"] + "fs/ls", json.dumps({"path": "/workspace"}), "application/json"),
        "seed": ("POST", path["seed"] + "seed/", form, content_type),
    }
    broker = daemon.children()[0]
    os.kill(broker, signal.SIGSTOP)
    connections = {}
    for name, (method, where, body, kind) in requests.items():
        connections[name] = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60)
        connections[name].request(method, "/api/v1" + where, body, {"X-API-Key": KEY, **({"Content-Type": kind} if kind else {})})
    for _ in range(3):  # the front has turned to all of them meanwhile
        assert daemon.api().raw("GET", "/-/health/")[0] == 200
    os.kill(broker, signal.SIGKILL)
    answers = {name: connection.getresponse() for name, connection in connections.items()}
    assert {name: answer.status for name, answer in answers.items()} == dict.fromkeys(requests, 503)
    assert daemon.process.wait(60) == 1, "whoever supervises it starts it again"
    daemon.start()
    for session in sessions.values():
        daemon.api().close(session, force=True)


def test_a_sandbox_that_died_meanwhile_is_a_stopped_session(own_daemon, busybox):
    daemon = own_daemon()
    api = daemon.api()
    session = api.create(busybox)
    api.run(session, "echo kept > f")
    daemon.kill()
    for pid in list(processes_of(daemon.uids)):
        os.kill(pid, signal.SIGKILL)
    daemon.start()
    assert daemon.api().output(session, "cat f") == "kept\n"
    daemon.api().close(session, force=True)


def test_a_killed_agent_breaks_its_own_session_only(daemon, api, start, busybox):
    first, second = start(busybox), start(busybox)
    api.run(first, "echo kept > f")
    uid = int(api.output(first, "cat /proc/self/uid_map").split()[1])
    for pid in list(processes_of(range(uid, uid + 65_536))):
        os.kill(pid, signal.SIGKILL)
    assert api.run_one(second, "echo fine") == ("fine\n", 0)
    assert api.status(first) == 204
    assert api.output(first, "cat f") == "kept\n"


def test_two_daemons_beside_each_other(own_daemon, busybox):
    first, second = own_daemon(), own_daemon()
    session = first.api().create(busybox)
    assert second.api().status(session) == 404
    other = second.api().create(busybox)
    second.stop()
    assert first.api().run_one(session, "echo fine") == ("fine\n", 0)
    second.start()
    assert second.api().run_one(other, "echo fine") == ("fine\n", 0)
    first.api().close(session, force=True)
    second.api().close(other, force=True)


@pytest.mark.parametrize("delay_ms", [0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 50])
def test_kill_9_in_the_middle_of_creations_leaves_nothing_ownerless(own_daemon, busybox, delay_ms):
    daemon = own_daemon()
    api = daemon.api()
    api.close(api.create(busybox), force=True)
    before = inventory.take(daemon)
    answers = []

    def create():
        try:
            answers.append(daemon.api(timeout=5).create(busybox))
        except (OSError, Refused, http.client.HTTPException):
            pass  # the daemon dies under it, by intent

    threads = [threading.Thread(target=create) for _ in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(delay_ms / 1000)  # the phase in which the kill hits
    daemon.kill()
    for thread in threads:
        thread.join()
    daemon.start()
    api = daemon.api()
    for session in answers:
        assert api.run_one(session, "echo fine") == ("fine\n", 0), "what was answered is there"
        api.close(session, force=True)
    # A creation that was recorded but not answered may live on as a session: it is listed, and can be removed.
    listed = daemon.cli("ps", "--json")
    for session in json.loads(listed.stdout):
        api.close(session.get("id") or session["session"], force=True)
    assert inventory.new_since(daemon, before, without=["pidfds"]) == {}


def test_a_stopping_daemon_finishes_a_command_in_flight(own_daemon, busybox):
    daemon = own_daemon()
    session = daemon.api().create(busybox)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        running = pool.submit(daemon.api().run_one, session, "sleep 1; echo end")
        time.sleep(0.3)  # the command is on its way to the agent
        process = daemon.process
        process.send_signal(signal.SIGTERM)
        assert running.result() == ("end\n", 0)
        process.wait(10)
    daemon.start()
    daemon.api().close(session, force=True)
