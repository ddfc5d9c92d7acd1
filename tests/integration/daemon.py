"""A daemon of the build tree with directories, port, key and uid ranges of its own, and a client of its API."""
import base64
import contextlib
import fcntl
import http.client
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import uuid

import hierarchy
import registry

KEY = "integration-key"
START_SECONDS = 20
STOP_SECONDS = 20

RANGE = 65_536
# Ranges of the test daemons lie one behind the other, so that what a daemon leaves behind is known by its uids.
RANGES_PER_DAEMON = 256
UIDS_PER_DAEMON = RANGE * RANGES_PER_DAEMON
FIRST_UID = 0x7000_0000
DAEMONS = 100


def take_place():
    """(number, lock file) of a free place among the test daemons of this machine, whoever runs them."""
    for number in range(DAEMONS):
        lock = open(f"/run/lock/daiv-test-daemon-{number}", "w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return number, lock
        except BlockingIOError:
            lock.close()
    raise RuntimeError("too many test daemons")


class Refused(Exception):
    """An answer that the caller did not expect."""

    def __init__(self, status, body):
        super().__init__(f"{status}: {body[:2000]!r}")
        self.status, self.body = status, body

    @property
    def detail(self):
        return json.loads(self.body).get("detail")


class Api:
    """One keep-alive connection. Not for use by several threads at once: each makes its own."""

    def __init__(self, port, key=KEY, timeout=120, prefix="/api/v1"):
        self.port, self.key, self.prefix = port, key, prefix
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)

    def raw(self, method, path, body=None, headers=None):
        """(status, bytes) of a request with these headers and no others but the key."""
        self.connection.request(method, self.prefix + path, body, {"X-API-Key": self.key, **(headers or {})})
        reply = self.connection.getresponse()
        return reply.status, reply.read()

    def call(self, method, path, value=None, expect=(200, 204)):
        body, headers = (None, {}) if value is None else (json.dumps(value), {"Content-Type": "application/json"})
        status, data = self.raw(method, path, body, headers)
        if status not in expect:
            raise Refused(status, data)
        return json.loads(data) if data else None

    def create(self, image, **more):
        return self.call("POST", "/session/", {"base_image": image, **more})["session_id"]

    def run(self, session, *commands, **more):
        """(output, exit code) of each command."""
        reply = self.call("POST", f"/session/{session}/", {"commands": list(commands), **more})
        return [(result["output"], result["exit_code"]) for result in reply["results"]]

    def run_one(self, session, command, **more):
        return self.run(session, command, **more)[0]

    def output(self, session, command):
        """The output of a command that must succeed."""
        text, code = self.run_one(session, command)
        assert code == 0, f"{command!r}: exit code {code}: {text[-2000:]}"
        return text

    def seed(self, session, repo=None, skills=None):
        body, content_type = multipart({"repo_archive": repo, "skills_archive": skills})
        return self.raw("POST", f"/session/{session}/seed/", body, {"Content-Type": content_type})

    def fs(self, session, operation, **body):
        return self.call("POST", f"/session/{session}/fs/{operation}", body)

    def write(self, session, path, content):
        data = content.encode() if isinstance(content, str) else content
        return self.fs(session, "write", path=path, content=base64.b64encode(data).decode())

    def status(self, session):
        return self.raw("GET", f"/session/{session}/")[0]

    def close(self, session, force=False):
        status, data = self.raw("DELETE", f"/session/{session}/" + ("?force=true" if force else ""))
        if status != 204:
            raise Refused(status, data)


def multipart(fields):
    """(body, content type) of a form with the given archives; None leaves a field out."""
    boundary = uuid.uuid4().hex
    parts = [f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"; filename="{name}.tar"\r\n'
             "Content-Type: application/octet-stream\r\n\r\n".encode() + data + b"\r\n"
             for name, data in fields.items() if data is not None]
    return b"".join(parts) + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


class Daemon:
    """`daiv-sandbox serve`. start() and stop() may alternate: the directories stay until remove()."""

    def __init__(self, build, settings=None):
        self.build = pathlib.Path(build)
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="daiv-test-", dir="/var/tmp"))
        self.directory.chmod(0o711)  # the front's user must get through
        self.state, self.runtime = self.directory / "state", self.directory / "run"
        number, self.place = take_place()
        self.uid_start = FIRST_UID + number * UIDS_PER_DAEMON
        self.port = registry.free_port()
        self.cgroup = hierarchy.cgroup_root() / self.directory.name
        self.settings = {
            "DAIV_SANDBOX_API_KEY": KEY, "DAIV_SANDBOX_HOST": "127.0.0.1", "DAIV_SANDBOX_PORT": str(self.port),
            "DAIV_SANDBOX_STATE_DIR": str(self.state), "DAIV_SANDBOX_RUNTIME_DIR": str(self.runtime),
            "DAIV_SANDBOX_UID_START": str(self.uid_start), "DAIV_SANDBOX_UID_COUNT": str(RANGES_PER_DAEMON),
            "DAIV_SANDBOX_CGROUP_ROOT": str(self.cgroup),
            **(settings or {}),
        }
        self.log = self.directory / "log"
        self.process = None

    @property
    def environment(self):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("DAIV_SANDBOX_")}
        return {**kept, **self.settings}

    @property
    def program(self):
        return str(self.build / "cli" / "daiv-sandbox")

    @property
    def uids(self):
        return range(self.uid_start, self.uid_start + UIDS_PER_DAEMON)

    def start(self):
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([self.program, "serve"], env=self.environment, stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                if Api(self.port, timeout=5, prefix="").raw("GET", "/-/health/")[0] == 200:
                    return self
            except OSError:
                time.sleep(0.02)  # nothing to wait on: a port that begins to listen tells nobody
        raise RuntimeError(f"the daemon does not answer:\n{self.log_text()[-4000:]}")

    def log_text(self):
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def api(self, **more):
        return Api(self.port, **more)

    def cli(self, *arguments, **more):
        return subprocess.run([self.program, *arguments], env=self.environment, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=not more.get("input") or isinstance(more["input"], str),
                              timeout=120, **more)

    def children(self):
        """Pids of the front's children: the broker."""
        return [int(pid) for pid in pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()]

    def stop(self, how=signal.SIGTERM):
        if self.process is None:
            return
        self.process.send_signal(how)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise RuntimeError(f"the daemon did not end:\n{self.log_text()[-4000:]}") from None
        finally:
            self.process = None

    def kill(self):
        self.stop(signal.SIGKILL)

    def remove(self):
        """Ends the daemon and whatever its sessions left, so that a failing test does not spoil the next."""
        try:
            self.stop()
        finally:
            kill_leftovers(self.uids)
            remove_cgroup(self.cgroup)
            unmount_below(self.directory)
            shutil.rmtree(self.directory, ignore_errors=True)
            self.place.close()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.remove()


@contextlib.contextmanager
def on_tmpfs(build, options, **settings):
    """A daemon whose state is on a tmpfs with OPTIONS."""
    daemon = Daemon(build, settings)
    daemon.state.mkdir(mode=0o711)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"mode=0711,{options}", "tmpfs", str(daemon.state)], check=True)
    try:
        yield daemon.start()
    finally:
        try:
            daemon.stop()
        finally:
            subprocess.run(["umount", "-l", str(daemon.state)], check=True)
            daemon.remove()


def processes_of(uids):
    """Pids of the processes that run under one of UIDS. A dead one that only the host's init can reap is none."""
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry.stat().st_uid in uids or _real_uid(entry) in uids) and not _waits_for_init(entry):
                    yield int(entry.name)
            except (FileNotFoundError, ProcessLookupError):
                continue


def _real_uid(process):
    for line in (process / "status").read_text().splitlines():
        if line.startswith("Uid:"):
            return int(line.split()[1])
    return -1


def _waits_for_init(process):
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines() if ":" in line)
    return status["State"].split()[0] == "Z" and status["PPid"].strip() == "1"


def remove_cgroup(path):
    """Kills what is in it and removes it with all below it; the kernel needs a moment until it is empty."""
    deadline = time.monotonic() + 5
    while path.exists() and time.monotonic() < deadline:
        (path / "cgroup.kill").write_text("1")
        for directory, _, _ in os.walk(path, topdown=False):
            try:
                os.rmdir(directory)
            except OSError:
                time.sleep(0.02)


def unmount_below(directory):
    """What sessions with egress hold: their network namespaces are mounts."""
    for line in reversed(pathlib.Path("/proc/self/mountinfo").read_text().splitlines()):
        place = line.split()[4]
        if place.startswith(f"{directory}/"):
            subprocess.run(["umount", "-l", place], check=False, stderr=subprocess.DEVNULL)


def kill_leftovers(uids):
    for pid in list(processes_of(uids)):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
