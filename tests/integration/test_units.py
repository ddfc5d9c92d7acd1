"""Front and broker as units of their own: passed sockets, readiness, the watchdog, restarts; and the unit files."""
import http.client
import os
import pathlib
import signal
import subprocess
import threading
import time

import pytest

import daemon as daemons
import exposures
import unit_daemon
from test_restart import settled

ROOT = pathlib.Path(__file__).resolve().parents[2]
UNITS = ROOT / "packaging" / "systemd"


@pytest.fixture
def units(build):
    """units(**settings): a daemon as its units start it, not started yet."""
    made = []

    def make(**more):
        made.append(unit_daemon.UnitDaemon(build, **more))
        return made[-1]

    yield make
    for one in made:
        one.remove()


def credentials_of(pid):
    """(uids, permitted capabilities) of a process."""
    fields = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
                  if ":\t" in line)
    return set(fields["Uid"].split()), int(fields["CapPrm"], 16)


def test_a_front_that_never_was_root_serves_sessions(units, busybox):
    daemon = units().start()
    api = daemon.api()
    session = api.create(busybox)
    assert api.output(session, "echo from a unit") == "from a unit\n"
    uids, capabilities = credentials_of(daemon.process.pid)
    assert "0" not in uids and capabilities == 0
    assert credentials_of(daemon.broker.pid)[0] == {"0"}
    assert daemon.cli("ps").returncode == 0, "the control socket is there as well"
    api.close(session, force=True)
    assert settled(lambda: set(daemons.processes_of(daemon.uids))) == set()


def test_a_restart_of_both_units_keeps_the_session_and_the_listener(units, busybox):
    daemon = units().start()
    api = daemon.api()
    session = api.create(busybox)
    api.run(session, "echo kept > f; sleep 600 & echo")
    running = settled(lambda: set(daemons.processes_of(daemon.uids)))
    daemon.stop()
    # Nobody serves now: the listener takes the connection all the same, and the next front answers.
    waiting = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=120)
    waiting.request("GET", "/-/health/")
    daemon.start()
    assert waiting.getresponse().status == 200
    assert daemon.api().output(session, "cat f") == "kept\n"
    assert set(daemons.processes_of(daemon.uids)) == running, "adopted, not started again"
    daemon.api().close(session, force=True)


def workspace(daemon):
    """The /workspace of the daemon's one session, seen from the host."""
    return pathlib.Path(f"/proc/{next(daemons.processes_of(daemon.uids))}/root/workspace")


def test_a_request_in_flight_is_answered_before_the_front_ends(units, busybox):
    daemon = units().start()
    session = daemon.api().create(busybox)
    answers = []
    command = "touch /workspace/begun; while [ ! -s /workspace/begun ]; do sleep 0.1; done; echo finished"
    thread = threading.Thread(target=lambda: answers.append(daemon.api().run_one(session, command)))
    thread.start()
    deadline = time.monotonic() + 60
    while not (workspace(daemon) / "begun").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    heard = len(daemon.manager.heard)
    daemon.process.send_signal(signal.SIGTERM)
    daemon.manager.hear("STOPPING=1", heard)
    assert daemon.process.poll() is None
    (workspace(daemon) / "begun").write_text("go")
    thread.join(60)
    assert answers == [("finished\n", 0)]
    assert daemon.process.wait(60) == 0


def is_fed_while_the_loop_turns_and_no_longer(manager, process):
    first = manager.hear("WATCHDOG=1")
    manager.hear("WATCHDOG=1", first + 1)
    process.send_signal(signal.SIGSTOP)
    while True:  # what was sent before it stopped
        manager.socket.settimeout(2)
        try:
            manager.socket.recv(4096)
        except TimeoutError:
            break
    process.send_signal(signal.SIGCONT)
    manager.hear("WATCHDOG=1", len(manager.heard))


def test_the_watchdog_of_the_front_is_fed_while_its_loop_turns_and_no_longer(units):
    daemon = units().start(environment={"WATCHDOG_USEC": "300000"})
    is_fed_while_the_loop_turns_and_no_longer(daemon.manager, daemon.process)


def test_the_watchdog_of_the_broker_is_fed_while_its_loop_turns_and_no_longer(units):
    daemon = units()
    manager = unit_daemon.Manager(f"{daemon.directory.name}-broker")
    daemon.start_broker(NOTIFY_SOCKET=manager.address, WATCHDOG_USEC="300000")
    manager.hear("WATCHDOG=1", manager.hear("READY=1"))  # also while no front has come
    front = daemon.spawn_front()
    daemon.process = front
    daemon.manager.hear("READY=1")
    is_fed_while_the_loop_turns_and_no_longer(manager, daemon.broker)
    assert daemon.api().raw("GET", "/-/health/")[0] == 200


def test_a_reload_is_announced_and_ends(units):
    daemon = units().start()
    heard = len(daemon.manager.heard)
    daemon.process.send_signal(signal.SIGHUP)
    deadline = time.monotonic() + 60
    while not any(message.startswith("RELOADING=1\nMONOTONIC_USEC=") for message in daemon.manager.heard[heard:]):
        assert time.monotonic() < deadline
        daemon.manager.socket.settimeout(60)
        daemon.manager.heard.append(daemon.manager.socket.recv(4096).decode())
    daemon.manager.hear("READY=1", heard)
    assert daemon.api().raw("GET", "/-/health/")[0] == 200


def test_a_broker_that_dies_ends_the_front_and_no_session(units, busybox):
    daemon = units().start()
    session = daemon.api().create(busybox)
    daemon.broker.kill()
    assert daemon.process.wait(60) == 1, "so that the service manager starts both again"
    daemon.start()
    assert daemon.api().output(session, "echo alive") == "alive\n"
    daemon.api().close(session, force=True)


def refusal(daemon, **more):
    """What a front says that does not start."""
    front = daemon.spawn_front(**more)
    assert front.wait(90) == 1
    return daemon.log_text()


@pytest.mark.parametrize("setting, value", [("HOST", "127.0.0.2"), ("HOST", "0.0.0.0"), ("PORT", "1")])
def test_sockets_that_are_not_those_of_the_settings_are_refused(units, setting, value):
    daemon = units(settings={f"DAIV_SANDBOX_{setting}": value})
    assert f"DAIV_SANDBOX_{setting}={value}, but the socket unit listens on 127.0.0.1:{daemon.port}" in refusal(daemon)


def test_a_socket_for_https_without_a_certificate_is_refused(units):
    assert "DAIV_SANDBOX_TLS_CERT_FILE" in refusal(units(name="https"))


def test_a_front_without_a_broker_says_so(units):
    daemon = units()
    daemon.broker_listener.close()
    assert "no broker answers at" in refusal(daemon)


def test_a_front_with_a_broker_socket_refuses_to_be_root(units):
    daemon = units()
    done = subprocess.run([daemon.program, "serve"], env=daemon.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=60)
    assert done.returncode == 1 and "must be started by the user daiv-sandbox" in done.stderr


def test_the_broker_takes_no_other_user(units):
    """The socket's mode keeps others out; where it did not, the broker would."""
    daemon = units()
    daemon.start_broker()
    os.chmod(daemon.settings["DAIV_SANDBOX_BROKER_SOCKET"], 0o666)
    daemon.directory.chmod(0o755)
    stranger = subprocess.run(
        ["/usr/bin/python3", "-c", "import socket, sys; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET);"
         "s.connect(sys.argv[1]); s.settimeout(60); print(s.recv(10))", daemon.settings["DAIV_SANDBOX_BROKER_SOCKET"]],
        user="nobody", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=90)
    assert stranger.stdout == "b''\n", stranger.stderr
    assert "event=front_refused" in daemon.log_text()
    daemon.process = daemon.spawn_front()
    daemon.manager.hear("READY=1")


def test_a_broker_without_its_socket_is_refused(units):
    done = units().cli("broker")
    assert done.returncode == 1 and "daiv-sandbox-broker.socket" in done.stderr


# --- the unit files ---------------------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def checked_units(build, tmp_path_factory):
    """Copies of the units whose programs are those of the build tree."""
    directory = tmp_path_factory.mktemp("units")
    for unit in UNITS.glob("daiv-sandbox*.s*"):
        text = unit.read_text().replace("/usr/bin/daiv-sandbox ", f"{build}/cli/daiv-sandbox ")
        text = text.replace("/usr/libexec/daiv-sandbox/daiv-sandbox-hold", f"{build}/runtime/daiv-sandbox-hold")
        (directory / unit.name).write_text(text)
    return sorted(directory.iterdir())


def test_systemd_finds_no_fault_in_the_units(checked_units):
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", *checked_units], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=120)
    assert (done.returncode, done.stdout.strip()) == (0, "")


@pytest.mark.parametrize("unit", sorted(path.name for path in UNITS.glob("*.service")))
def test_the_exposure_is_what_the_documentation_says(checked_units, unit):
    path = next(path for path in checked_units if path.name == unit)
    done = subprocess.run(["systemd-analyze", "security", "--offline=true", path], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=120)
    assert exposures.score(done.stdout) == exposures.stated()[unit]


def test_apparmor_compiles_the_profile():
    done = subprocess.run(["apparmor_parser", "--skip-kernel-load", "--skip-cache", ROOT / "packaging" / "apparmor" / "daiv-sandbox"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "error" not in done.stderr.lower()
