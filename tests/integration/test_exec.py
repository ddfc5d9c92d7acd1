"""Inputs that broke others: commands. Children that keep the output, timeouts, big and fast output, odd commands."""
import concurrent.futures
import pathlib
import time

import pytest

import daemon as daemons


def timed(function, *arguments, **more):
    started = time.monotonic()
    return function(*arguments, **more), time.monotonic() - started


# --- children that keep the output ------------------------------------------------------------------------------------

CHILD_COMMANDS = {
    "plain": ("sleep 300 & echo hi", "hi\n"),
    "writing": ("(while :; do echo x; sleep 1; done) & echo done", "done\n"),
    "own session": ("setsid nohup sleep 300 & echo hi", "hi\n"),
    "redirected": ("sleep 300 >/dev/null 2>&1 & echo hi", "hi\n"),
}


def test_the_answer_comes_when_the_shell_ends_whoever_holds_the_output(api, session):
    for name, (command, output) in CHILD_COMMANDS.items():
        (text, code), seconds = timed(api.run_one, session, command)
        assert seconds < 0.5, f"{name}: {seconds:.2f} s"
        assert code == 0 and output in text and text.replace("x\n", "").replace("nohup: ignoring input\n", "") == output, name
        _, seconds = timed(api.run_one, session, "true")
        assert seconds < 0.5, f"after {name}: {seconds:.2f} s"


def test_a_background_child_lives_on_until_the_session_is_closed(daemon, api, start, debian):
    session = start(debian)
    api.run(session, "sleep 4242 & echo", "(while :; do echo x; sleep 0.1; done) & echo")
    time.sleep(0.5)  # long enough for a SIGPIPE to hit the second one
    for _ in range(2):
        assert api.output(session, "pgrep -fc '[s]leep 4242; echo ran' || pgrep -c sleep").strip() != "0"
    # The second one's sleeps come and go.
    assert api.output(session, "for i in $(seq 500); do test $(pgrep -xc sleep) -lt 2 || { echo both; break; }; done") == "both\n"
    api.close(session)
    outside = {daemons._real_uid(pathlib.Path(f"/proc/{pid}")) for pid in daemons.processes_of(daemon.uids)}
    base = {uid - uid % daemons.RANGE for uid in outside}
    assert not base, "a process outlived its session's close"


def test_zombies_are_reaped(api, session):
    api.run(session, "for i in 1 2 3 4 5 6 7 8; do (true &) ; done; sleep 0.2")
    assert "Z" not in api.output(session, "ps -eo stat --no-headers")


# --- timeouts ---------------------------------------------------------------------------------------------------------

def command_processes(api, session):
    return [line for line in api.output(session, "ps -eo args --no-headers").splitlines() if "sleep 600" in line]


def test_a_timeout_kills_the_whole_tree(api, session):
    command = "echo before; sleep 600 & (setsid sleep 600 &) ; trap '' TERM INT; while :; do :; done"
    results, seconds = timed(api.run, session, command, "echo skipped", timeout=1)
    assert seconds < 2.5
    assert len(results) == 1, "the remaining commands are skipped"
    output, code = results[0]
    assert code == 124
    assert output.startswith("before\n") and len(output) > len("before\n")
    assert command_processes(api, session) == []


def test_a_double_forked_child_of_a_timed_out_command_is_gone(api, session):
    program = ("import os, time\n"
               "if os.fork() == 0:\n os.setsid()\n if os.fork() == 0:\n  os.execvp('sleep', ['sleep', '600'])\n os._exit(0)\n"
               "time.sleep(600)")
    assert api.run_one(session, f'python3 -c "{program}"', timeout=1)[1] == 124
    assert command_processes(api, session) == []


def test_a_stopped_child_does_not_survive_a_timeout(api, session):
    assert api.run_one(session, "sleep 600 & kill -STOP $!; kill -STOP $$", timeout=1)[1] == 124
    assert command_processes(api, session) == []


def test_a_fork_bomb_ends_with_its_timeout_and_the_session_goes_on(api, session):
    (_, code), seconds = timed(api.run_one, session, "b() { b | b & }; b; sleep 30", timeout=2)
    assert code == 124 and seconds < 15
    assert api.run_one(session, "echo alive") == ("alive\n", 0)
    assert len(api.output(session, "ps -e --no-headers").splitlines()) < 10


def test_a_timed_out_command_leaves_older_background_children_alone(api, session):
    api.run(session, "sleep 4243 & echo")
    assert api.run_one(session, "sleep 60", timeout=1)[1] == 124
    assert api.output(session, "pgrep -x sleep").strip()


def test_zero_is_no_timeout(api, session):
    assert api.run_one(session, "sleep 1.5; echo end", timeout=0) == ("end\n", 0)


# --- output -----------------------------------------------------------------------------------------------------------

def rss_bytes(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def peak_bytes(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


@pytest.mark.speed
def test_two_gigabytes_of_output_do_not_grow_the_daemon(own_daemon, debian):
    daemon = own_daemon()
    api = daemon.api(timeout=300)
    session = api.create(debian)
    api.run(session, "true")
    before = rss_bytes(daemon.process.pid)
    status, length = read_and_count(daemon, session, "yes | head -c 2G")
    assert status == 200 and length > 0
    assert peak_bytes(daemon.process.pid) - before < 64 << 20
    api.close(session, force=True)


def read_and_count(daemon, session, command):
    """(status, bytes of the answer) without keeping the answer."""
    import http.client
    import json
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=300)
    connection.request("POST", f"/api/v1/session/{session}/", json.dumps({"commands": [command]}),
                       {"X-API-Key": daemons.KEY, "Content-Type": "application/json"})
    reply, length = connection.getresponse(), 0
    while chunk := reply.read(1 << 20):
        length += len(chunk)
    return reply.status, length


def test_fifty_clients_with_big_outputs_at_once(daemon, start, busybox):
    sessions = [start(busybox) for _ in range(10)]

    def client(number):
        return len(daemon.api().run_one(sessions[number % 10], "head -c 1048575 /dev/zero | tr '\\0' x")[0])

    with concurrent.futures.ThreadPoolExecutor(50) as pool:
        assert set(pool.map(client, range(50))) == {1048575}


def test_binary_output_is_valid_text(api, session):
    output, code = api.run_one(session, "head -c 5M /dev/urandom")
    assert code == 0 and "\ufffd" in output


def test_both_streams_keep_the_order_of_one_writer(api, session):
    command = "i=0; while [ $i -lt 5000 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done"
    assert api.output(session, command).split() == [f"{kind}{i}" for i in range(5000) for kind in "oe"]


# --- odd commands -----------------------------------------------------------------------------------------------------

def test_a_command_that_starts_with_a_dash_is_a_command(api, session):
    output, code = api.run_one(session, "-c echo")
    assert code == 127 and "-c" in output


def test_a_command_of_a_megabyte_runs(api, session):
    text = "x" * (1 << 20)
    assert api.output(session, f": '{text}'; echo ran") == "ran\n"


def test_standard_input_is_empty_and_output_can_be_reopened(api, session):
    assert api.output(session, "cat; echo a > /dev/stdout; echo b > /dev/stderr; readlink /proc/self/fd/0") == "a\nb\n/dev/null\n"


def test_a_client_that_disconnects_ends_its_command(daemon, api, session):
    other = daemon.api(timeout=0.7)
    try:
        other.run_one(session, "sleep 600")
    except TimeoutError:
        other.connection.close()
    deadline = time.monotonic() + 5
    while command_processes(api, session) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert command_processes(api, session) == []


def test_signals_and_exit_codes(api, session):
    assert [code for _, code in api.run(session, "kill -9 $$", "exit 255", "no-such-program", "kill -TERM $$")] == [137, 255, 127, 143]
