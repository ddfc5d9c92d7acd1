"""A soak: many sessions at once, each driven at random through its life, while the daemon's memory and descriptors are watched.

Every answer is checked, and at the end nothing may be left: no error, no leak, and no growth that time alone explains.
"""
import collections
import concurrent.futures
import http.client
import pathlib
import random
import threading
import time

import daemon as daemons
import inventory
import oci
from egress_fixtures import STANDARD
from oci import entry

OPERATIONS = {"run": 40, "write": 15, "read": 15, "seed": 5, "egress": 5, "close": 10, "remove": 10}
ARCHIVE = oci.tar(*(entry(f"seeded/{number}", "s" * 500) for number in range(50)))
CLIENTS = 8
SAMPLES = 20


class Soaked:
    """What a session holds according to the answers so far. One client at a time."""

    def __init__(self, api, image, random_source):
        self.random = random_source
        self.linked = random_source.random() < 0.3
        self.session = api.create(image, **({"egress": STANDARD} if self.linked else {}))
        self.files, self.seeded = {}, False

    def run(self, api):
        number = self.random.randrange(10**6)
        assert api.run_one(self.session, f"echo {number}") == (f"{number}\n", 0)

    def write(self, api):
        name = f"/workspace/repo/f{len(self.files)}"
        self.files[name] = str(self.random.randrange(10**6))
        api.write(self.session, name, self.files[name])

    def read(self, api):
        if self.files:
            name = self.random.choice(sorted(self.files))
            assert api.output(self.session, f"cat {name}") == self.files[name]

    def seed(self, api):
        status, body = api.seed(self.session, repo=ARCHIVE)
        assert status == (409 if self.seeded else 204), body
        self.seeded = True

    def egress(self, api):
        if not self.linked:
            return
        api.call("PUT", f"/session/{self.session}/egress/", STANDARD)
        proxied = api.output(self.session, "wget -q -O - http://denied.test/ 2>&1; true")
        assert "403" in proxied, proxied

    def close(self, api):
        api.close(self.session)

    def remove(self, api):
        api.close(self.session, force=True)


class Soak:
    def __init__(self, daemon, image, sessions, seed):
        self.daemon, self.image, self.wanted = daemon, image, sessions
        self.random, self.lock = random.Random(seed), threading.Lock()
        self.idle, self.counts, self.errors = collections.deque(), collections.Counter(), []
        self.samples = []

    def client(self, end):
        api = self.daemon.api()
        while time.monotonic() < end and not self.errors:
            try:
                self.step(api)
            except (AssertionError, OSError, http.client.HTTPException, daemons.Refused) as error:
                with self.lock:
                    self.errors.append(repr(error))

    def step(self, api):
        with self.lock:
            source = random.Random(self.random.random())
            full = len(self.idle) + CLIENTS >= self.wanted
            one = self.idle.popleft() if self.idle and (full or source.random() < 0.5) else None
        operation = "create"
        if one is None:
            one = Soaked(api, self.image, source)
        else:
            operation = source.choices(list(OPERATIONS), OPERATIONS.values())[0]
            getattr(one, operation)(api)
        with self.lock:
            self.counts[operation] += 1
            if operation != "remove":
                self.idle.append(one)

    def sample(self):
        processes = [self.daemon.process.pid, *self.daemon.children()]
        self.samples.append({
            "sessions": len(self.idle),
            "memory_kib": sum(memory_kib(pid) for pid in processes),
            "descriptors": sum(len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir())) for pid in processes),
        })

    def run(self, seconds):
        end = time.monotonic() + seconds
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            clients = [pool.submit(self.client, end) for _ in range(CLIENTS)]
            while time.monotonic() < end and not self.errors:
                time.sleep(min(seconds / SAMPLES, 10))  # between two looks
                self.sample()
            for client in clients:
                client.result()
        self.remove_all()

    def remove_all(self):
        def remove(one):
            self.daemon.api().close(one.session, force=True)
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(remove, self.idle))
        self.idle.clear()


def memory_kib(pid):
    """Private memory: what is shared with the program's file or with other processes does not leak."""
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Private_Dirty:"):
            return int(line.split()[1])
    raise AssertionError("smaps_rollup without Private_Dirty")


def soak(daemon, image, sessions, seconds, seed):
    """Two rounds, the first of which also fills what the daemon keeps for later. Returns (rows of a table, faults)."""
    daemon.api().close(daemon.api().create(image), force=True)
    before = inventory.take(daemon)
    rounds = []
    for number in range(2):
        one = Soak(daemon, image, sessions, f"{seed} {number}")
        one.run(seconds / 2)
        leaked = inventory.new_since(daemon, before, 60)
        one.sample()  # with no session left
        rounds.append((one, leaked))
    return table(rounds), faults(rounds)


def table(rounds):
    yield ["round", "operations", "errors", "sessions at most", "memory at most, KiB", "memory after, KiB", "descriptors after", "leaks"]
    for number, (one, leaked) in enumerate(rounds, 1):
        yield [number, sum(one.counts.values()), len(one.errors), max(sample["sessions"] for sample in one.samples),
               max(sample["memory_kib"] for sample in one.samples), one.samples[-1]["memory_kib"],
               one.samples[-1]["descriptors"], len(leaked)]


MEMORY_SLACK = 1.25  # what the allocator keeps differs with the order of the operations
DESCRIPTOR_SLACK = 8  # idle connections to the database and of clients


def faults(rounds):
    first, last = rounds[0][0].samples[-1], rounds[-1][0].samples[-1]
    for one, leaked in rounds:
        yield from one.errors
        if leaked:
            yield f"left behind: {leaked}"
        if missing := {"create", *OPERATIONS} - set(one.counts):
            yield f"never done: {missing}"
    if last["memory_kib"] > first["memory_kib"] * MEMORY_SLACK:
        yield f"memory grows: {first['memory_kib']} KiB after the first round, {last['memory_kib']} after the last"
    if last["descriptors"] > first["descriptors"] + DESCRIPTOR_SLACK:
        yield f"descriptors grow: {first['descriptors']}, then {last['descriptors']}"
