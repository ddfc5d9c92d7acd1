"""One crash trial: an operation of the API, a SIGKILL at a random moment of it, a new start, and what must hold then.

A trial is known by its seed alone. What is expected follows from the answer that the client had: what was answered with
success is there, what was not may be there whole or not at all, and everything that was there before still is.
"""
import contextlib
import http.client
import json
import os
import pathlib
import random
import signal
import sqlite3
import threading
import time

import daemon as daemons
import inventory
import oci
from egress_fixtures import STANDARD
from oci import entry

OPERATIONS = ("create", "create_egress", "run", "write", "seed", "close", "reopen", "remove", "egress")
DAEMON_VICTIMS, SANDBOX_VICTIMS = ("front", "broker", "both"), ("agent", "command")
LATEST_MOMENT = 1.2  # of how long the operation takes when nobody is killed: also shortly after it
SETTLE_SECONDS = 30
CLAIMS = pathlib.Path("/run/daiv-sandbox-uids")
CONTENT = "whole" * 4000
ARCHIVE = oci.tar(*(entry(f"seeded/{number}", "s" * 2000) for number in range(300)))


def poll(look, what):
    """Waits until LOOK gives something true."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while not (seen := look()):
        assert time.monotonic() < deadline, what
        time.sleep(0.02)  # nobody tells
    return seen


class Host:
    """A daemon with a witness: a session whose background process no trial may disturb."""

    def __init__(self, daemon, image):
        self.daemon, self.image = daemon, image
        api = daemon.api()
        self.witness = api.create(image)
        # In the foreground of a command that ends, the process stays on as a background process.
        api.run(self.witness, "echo kept > keep; sleep 100000 > /dev/null 2>&1 &")
        api.run(self.witness, "cat keep")  # the agent keeps this command's cgroup for the next
        self.witness_processes = self.settled_processes()
        self.baseline = inventory.take(daemon)
        self.durations = {}  # of each operation, undisturbed

    def settled_processes(self):
        poll(lambda: self.quiet(), "the processes of the witness do not settle")
        return set(daemons.processes_of(self.daemon.uids))

    def quiet(self):
        before = set(daemons.processes_of(self.daemon.uids))
        time.sleep(0.3)
        return before == set(daemons.processes_of(self.daemon.uids)) and before

    def listed(self):
        done = self.daemon.cli("ps", "--json")
        assert done.returncode == 0, done.stderr
        return {one["id"]: one for one in json.loads(done.stdout)}


class Trial:
    def __init__(self, host, seed, victim):
        self.host, self.daemon, self.victim = host, host.daemon, victim
        random_source = random.Random(f"{victim} {seed}")
        self.operation = random_source.choice(OPERATIONS)
        self.moment = random_source.uniform(0, LATEST_MOMENT)
        self.pick = random_source.random()
        self.answered, self.answer = False, None
        self.session = None

    def __str__(self):
        return f"{self.victim} killed at {self.moment:.3f} of {self.operation}"

    # --- the operation ---

    def prepare(self):
        if self.operation.startswith("create"):
            return
        api = self.daemon.api()
        self.session = api.create(self.host.image, **({"egress": STANDARD} if self.operation == "egress" else {}))
        api.run(self.session, "echo kept > keep")
        if self.operation == "reopen":
            api.close(self.session)

    def call(self, api):
        if self.operation == "create":
            return api.create(self.host.image)
        if self.operation == "create_egress":
            return api.create(self.host.image, egress=STANDARD)
        if self.operation == "run":
            return api.run_one(self.session, "sleep 0.05; echo done > done; echo said")
        if self.operation == "write":
            return api.write(self.session, "/workspace/repo/written", CONTENT)
        if self.operation == "seed":
            return self.seed(api)
        if self.operation == "close":
            return api.close(self.session)
        if self.operation == "reopen":
            return api.run_one(self.session, "cat keep")
        if self.operation == "remove":
            return api.close(self.session, force=True)
        return api.call("PUT", f"/session/{self.session}/egress/", STANDARD)

    def seed(self, api):
        status, body = api.seed(self.session, repo=ARCHIVE)
        if status != 204:
            raise daemons.Refused(status, body)

    def operate(self):
        try:
            self.answer = self.call(self.daemon.api(timeout=60))
            self.answered = True
        except (OSError, http.client.HTTPException, daemons.Refused):
            pass  # what it was doing was killed, by intent

    # --- the kill ---

    def kill(self):
        if self.victim in SANDBOX_VICTIMS:
            return self.kill_in_sandbox()
        front, broker = self.daemon.process, self.daemon.children()
        for pid in {"front": [front.pid], "broker": broker, "both": [front.pid, *broker]}[self.victim]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        front.wait(SETTLE_SECONDS)
        self.daemon.process = None
        return True

    def kill_in_sandbox(self):
        first = self.victim == "agent"
        found = [pid for pid in self.sandboxed() if is_first(pid) == first]
        if found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(sorted(found)[int(self.pick * len(found))], signal.SIGKILL)
                return True
        return False

    def sandboxed(self):
        return set(daemons.processes_of(self.daemon.uids)) - self.host.witness_processes

    def usual_duration(self):
        """Of the operation, undisturbed: tried once, with all that is checked of it."""
        if self.operation not in self.host.durations:
            self.prepare()
            started = time.monotonic()
            self.operate()
            self.host.durations[self.operation] = time.monotonic() - started
            assert self.answered, f"{self.operation} fails by itself"
            self.check()
            self.answered, self.answer, self.session = False, None, None
        return self.host.durations[self.operation]

    def run(self):
        """Whether the operation was still going on when a victim was killed."""
        delay = self.moment * self.usual_duration()
        self.prepare()
        operating = threading.Thread(target=self.operate)
        operating.start()
        time.sleep(delay)  # the moment of the kill
        struck = operating.is_alive()
        struck = self.kill() and struck
        operating.join()
        if self.daemon.process is None:
            self.daemon.start()
        self.check()
        return struck

    # --- what must hold ---

    def check(self):
        api = self.daemon.api()
        listed = self.host.listed()
        new = set(listed) - {self.host.witness, self.session}
        self.check_witness(api)
        if self.operation.startswith("create"):
            self.check_created(api, new)
        else:
            assert not new, "a session that nobody made"
            self.check_kept(api, listed)
        for session in {*new, *([self.session] if self.session else [])}:
            api.close(session, force=True)
        self.check_nothing_is_left()

    def check_witness(self, api):
        assert self.host.witness_processes <= set(daemons.processes_of(self.daemon.uids)), "the witness noticed"
        assert api.output(self.host.witness, "cat keep") == "kept\n"

    def check_created(self, api, new):
        assert len(new) <= 1
        if self.answered:
            assert new == {self.answer}, "an answered creation is there"
        for session in new:
            assert api.output(session, "echo works") == "works\n", "no session is half made"

    def check_kept(self, api, listed):
        if self.operation == "remove":
            assert not self.answered or self.session not in listed
            if self.session not in listed:
                assert api.status(self.session) == 404
                return
        assert self.session in listed
        if self.operation == "close" and self.answered:
            assert listed[self.session]["state"] == "stopped"
            poll(lambda: not self.sandboxed(), "processes outlive an answered close")
        assert api.output(self.session, "cat keep") == "kept\n", "the writable layer is there"
        getattr(self, f"check_{self.operation}", lambda _: None)(api)

    def check_run(self, api):
        if self.answered and self.answer[1] == 0:
            # Where only the shell's child was killed, the shell says so and goes on.
            assert self.answer[0].endswith("said\n") and api.output(self.session, "cat done") == "done\n"

    def check_write(self, api):
        output, code = api.run_one(self.session, "cat written")
        assert output == CONTENT if self.answered or code == 0 else code == 1, "whole or not there"

    def check_seed(self, api):
        poll(lambda: api.output(self.session, "ls -A /workspace | grep -c daiv-seed; true") == "0\n", "staged files stay")
        status, body = api.seed(self.session, repo=ARCHIVE)
        assert status == 409 if self.answered else status in (204, 409), body
        assert api.output(self.session, "cat seeded/* | wc -c; ls seeded | wc -l").split() == ["600000", "300"]

    def check_nothing_is_left(self):
        leaked = inventory.new_since(self.daemon, self.host.baseline, SETTLE_SECONDS, without=["pidfds"])
        assert not leaked, f"left behind: {leaked}"
        for folder in ("egress", "netns"):
            assert not list((self.daemon.runtime / folder).iterdir()), f"left in {folder}"
        claims = [one for one in CLAIMS.iterdir() if os.readlink(one).startswith(f"{self.daemon.state}/")]
        assert len(claims) == 1, "uid ranges beside the witness's"
        check_databases(self.daemon)


def is_first(pid):
    """Whether it is PID 1 of a namespace of its own."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return any(line.startswith("NSpid:") and line.split()[-1] == "1" for line in lines)


def check_databases(daemon):
    found = list((daemon.state / "front").glob("*.db"))
    assert len(found) == 2, found
    for path in found:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)], path
