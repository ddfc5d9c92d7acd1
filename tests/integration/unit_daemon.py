"""A daemon started as systemd starts it: sockets passed, front and broker apart, a manager that hears of it."""
import os
import shutil
import signal
import socket
import subprocess
import time

import daemon as daemons

FRONT_USER = "daiv-sandbox"
HEAR_SECONDS = 60


class Manager:
    """What NOTIFY_SOCKET leads to (sd_notify(3))."""

    def __init__(self, name):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(f"\0{name}")
        self.address = f"@{name}"
        self.heard = []

    def hear(self, word, after=0):
        """Waits for a message with the line WORD among those from number AFTER on; gives its number."""
        deadline = time.monotonic() + HEAR_SECONDS
        while True:
            for number, message in enumerate(self.heard):
                if number >= after and word in message.splitlines():
                    return number
            left = deadline - time.monotonic()
            assert left > 0, f"never heard {word}: {self.heard}"
            self.socket.settimeout(left)
            try:
                self.heard.append(self.socket.recv(4096).decode())
            except TimeoutError:
                continue


class UnitDaemon(daemons.Daemon):
    """`daiv-sandbox serve` as its user with a passed listener, and `daiv-sandbox broker` as root with another."""

    def __init__(self, build, settings=None, name="api"):
        super().__init__(build, settings)
        self.listener = socket.create_server(("127.0.0.1", self.port), backlog=64)
        path = self.directory / "broker.sock"
        self.broker_listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.broker_listener.bind(str(path))
        self.broker_listener.listen(4)
        shutil.chown(path, FRONT_USER)
        self.settings["DAIV_SANDBOX_BROKER_SOCKET"] = str(path)
        self.manager = Manager(self.directory.name)
        self.socket_name = name
        self.broker = None
        # The front's user may not be able to reach the build tree.
        self.front_program = self.directory / "daiv-sandbox"
        shutil.copy(self.program, self.front_program)

    def start_broker(self, **environment):
        with self.log.open("ab") as log:
            self.broker = spawn([self.program, "broker"], self.broker_listener, "broker", {**self.environment, **environment}, log)

    def spawn_front(self, **more):
        environment = {**self.environment, "NOTIFY_SOCKET": self.manager.address, **more.pop("environment", {})}
        with self.log.open("ab") as log:
            return spawn([str(self.front_program), "serve"], self.listener, self.socket_name, environment, log,
                         user=FRONT_USER, group=FRONT_USER, extra_groups=[], **more)

    def start(self, **more):
        self.start_broker()
        heard = len(self.manager.heard)
        self.process = self.spawn_front(**more)
        self.manager.hear("READY=1", heard)
        return self

    def stop(self, how=signal.SIGTERM):
        try:
            super().stop(how)
        finally:
            if self.broker is not None:
                self.broker.wait(daemons.STOP_SECONDS)  # it ends with the front
                self.broker = None

    def remove(self):
        try:
            super().remove()
        finally:
            self.listener.close()
            self.broker_listener.close()


def spawn(command, listener, name, environment, log, **more):
    """COMMAND with LISTENER as its descriptor 3, as sd_listen_fds(3) finds it."""
    # The shell knows the pid that it keeps over exec.
    return subprocess.Popen(["sh", "-c", 'LISTEN_PID=$$ exec "$@"', "sh", *command],
                            env={**environment, "LISTEN_FDS": "1", "LISTEN_FDNAMES": name},
                            preexec_fn=lambda: os.dup2(listener.fileno(), 3), pass_fds=[3], stdin=subprocess.DEVNULL,
                            stdout=log, stderr=log, cwd="/", **more)
