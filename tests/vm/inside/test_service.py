"""Restarts, crashes and an upgrade under systemd, with a session that has a process in the background."""
import os
import pathlib
import signal
import threading
import time

import daemon as daemons
import guest


class Busy(guest.Session):
    """A session with a process in the background, which must live on, and a file."""

    def __init__(self):
        super().__init__(guest.BUSYBOX)
        self.run("echo kept > file")
        self.before = guest.leave_process(self.id)

    def check(self):
        assert self.before <= guest.processes(self.id), "a process of the session ended"
        assert guest.api().run_one(self.id, "cat file; ps | grep -c '[s]leep 100000'") == ("kept\n1\n", 0)


class Asking(threading.Thread):
    """Asks the API again and again, each time over a connection of its own."""

    def __init__(self, session):
        super().__init__()
        self.session, self.done, self.answers, self.faults, self.longest = session, threading.Event(), 0, [], 0.0
        self.start()

    def run(self):
        while not self.done.is_set():
            started = time.monotonic()
            try:
                assert guest.api().run_one(self.session, "cat file") == ("kept\n", 0)
                self.answers += 1
            except (OSError, AssertionError, daemons.Refused, daemons.http.client.HTTPException) as fault:
                self.faults.append(repr(fault))
            self.longest = max(self.longest, time.monotonic() - started)

    def end(self):
        self.done.set()
        self.join()
        print(f"{self.answers} answers, the longest after {self.longest:.1f} s", flush=True)


def test_a_restart_spares_sessions_and_ends_no_command(_):
    with Busy() as session:
        front, holder = guest.main_pid(guest.FRONT), guest.main_pid(guest.HOLDER)
        result = []
        thread = threading.Thread(target=lambda: result.append(session.run("sleep 3; echo done")))
        thread.start()
        guest.wait_for("the command runs", lambda: len(guest.processes(session.id)) > len(session.before))
        guest.sh(f"systemctl restart {guest.FRONT}")
        thread.join()
        assert result == [("done\n", 0)]
        assert guest.main_pid(guest.FRONT) != front and guest.main_pid(guest.HOLDER) == holder
        session.check()


def test_a_crash_of_front_and_broker_spares_sessions(_):
    with Busy() as session:
        front = guest.main_pid(guest.FRONT)
        guest.sh(f"systemctl kill --signal=KILL {guest.FRONT} {guest.BROKER}")
        guest.wait_for("another front", lambda: guest.main_pid(guest.FRONT) not in (0, front))
        session.check()


def test_a_hung_broker_is_ended_by_the_watchdog_and_spares_sessions(_):
    drop_in = pathlib.Path(f"/run/systemd/system/{guest.BROKER}.d/short.conf")
    drop_in.parent.mkdir(parents=True, exist_ok=True)
    drop_in.write_text("[Service]\nWatchdogSec=3s\n")
    try:
        guest.sh("systemctl daemon-reload")
        guest.sh(f"systemctl restart {guest.FRONT}")
        with Busy() as session:
            front, broker = guest.main_pid(guest.FRONT), guest.main_pid(guest.BROKER)
            os.kill(broker, signal.SIGSTOP)
            guest.wait_for("another front", lambda: guest.main_pid(guest.FRONT) not in (0, front))
            session.check()
            assert guest.main_pid(guest.BROKER) != broker
    finally:
        drop_in.unlink()
        guest.sh("systemctl daemon-reload")
        guest.sh(f"systemctl restart {guest.FRONT}")


def test_an_upgrade_spares_sessions_and_refuses_nobody(_):
    with Busy() as session:
        front, holder = guest.main_pid(guest.FRONT), guest.main_pid(guest.HOLDER)
        asking = Asking(session.id)
        guest.wait_for("answers", lambda: asking.answers > 1 or asking.faults)
        try:
            guest.apt("install", "/share/newer.deb")
            before = asking.answers
            guest.wait_for("answers of the new front", lambda: asking.answers > before + 1 or asking.faults)
        finally:
            asking.end()
        assert asking.faults == []
        assert guest.sh("dpkg-query --show --showformat '${Version} ${db:Status-Status}' daiv-sandbox") == "9 installed"
        assert guest.main_pid(guest.FRONT) != front and guest.main_pid(guest.HOLDER) == holder
        session.check()


def test_the_end_of_the_holder_stops_sessions_and_a_request_starts_them_again(_):
    with guest.Session(guest.BUSYBOX) as session:
        session.run("echo kept > file")
        guest.leave_process(session.id)
        guest.sh(f"systemctl stop {guest.HOLDER}")
        assert guest.sh(f"systemctl show --value --property=Result {guest.HOLDER}") == "success\n", "no time-out: it was obeyed"
        assert not guest.CGROUPS.exists() and not guest.commands("100000")
        # The socket is there still, and who connects to it starts all units again.
        assert guest.api().run_one(session.id, "cat file; ps | grep -c '[s]leep 100000'") == ("kept\n0\n", 1)
