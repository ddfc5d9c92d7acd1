"""Origins behind a network namespace: a link leads to them from there, and none from the host.

The host's own route to their addresses says "unreachable", so that nothing leaves the machine where one is tried from it.
"""
import json
import pathlib
import shutil
import subprocess
import sys

from origins import NAMES, Origins, _ip

ETC = pathlib.Path("/etc/netns")


class HiddenOrigins(Origins):
    """The web server of Origins and a name server, both in `namespace`; `upstream` is the namespace with a way to them."""

    def __init__(self):
        super().__init__()
        self.upstream = f"daivup{self.number}"
        self.own_address = self.host  # here the upstream namespace's
        self.subnet = f"198.18.{self.number}.0/24"
        self.name_server = None
        self.names()

    @property
    def settings(self):
        return {"DAIV_SANDBOX_EGRESS_UPSTREAM_CA_FILE": str(self.ca), "DAIV_SANDBOX_EGRESS_PROXY_NETWORK": self.upstream}

    def names(self, addresses=None):
        """What the name server knows: NAMES, and what is given here."""
        known = {name: self.address for name in NAMES} | (addresses or {})
        (self.directory / "names").write_text(json.dumps(known))

    def asked(self):
        """"udp NAME" or "tcp NAME" of each question to the name server."""
        file = self.directory / "asked"
        return file.read_text().splitlines() if file.exists() else []

    def _network(self):
        self._remove_network()
        _ip("route", "add", "unreachable", self.subnet)
        _ip("netns", "add", self.namespace)
        _ip("-n", self.namespace, "link", "set", "lo", "up")
        self.make_upstream()
        (ETC / self.upstream).mkdir(parents=True, exist_ok=True)
        (ETC / self.upstream / "resolv.conf").write_text(f"nameserver {self.address}\n")

    def make_upstream(self):
        """The namespace with its link; made anew where it was deleted."""
        _ip("netns", "add", self.upstream)
        # What is left of an earlier link, while something still holds its other end.
        subprocess.run(["ip", "-n", self.namespace, "link", "delete", "origin0"], stderr=subprocess.DEVNULL, check=False)
        _ip("-n", self.upstream, "link", "add", "up0", "type", "veth", "peer", "name", "origin0", "netns", self.namespace)
        _ip("-n", self.upstream, "address", "add", f"{self.own_address}/24", "dev", "up0")
        _ip("-n", self.upstream, "link", "set", "up0", "up")
        _ip("-n", self.upstream, "link", "set", "lo", "up")
        _ip("-n", self.namespace, "address", "add", f"{self.address}/24", "dev", "origin0")
        _ip("-n", self.namespace, "link", "set", "origin0", "up")

    def delete_upstream(self):
        _ip("netns", "delete", self.upstream)

    def link_is_there(self):
        """Whether the upstream namespace lives on, with or without a name."""
        found = subprocess.run(["ip", "-n", self.namespace, "link", "show", "origin0"], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, check=False)
        return found.returncode == 0

    def _remove_network(self):
        for name in (self.upstream, self.namespace):
            subprocess.run(["ip", "netns", "delete", name], stderr=subprocess.DEVNULL, check=False)
        subprocess.run(["ip", "route", "delete", "unreachable", self.subnet], stderr=subprocess.DEVNULL, check=False)
        shutil.rmtree(ETC / self.upstream, ignore_errors=True)

    def __enter__(self):
        super().__enter__()
        try:
            self.name_server = subprocess.Popen(
                ["ip", "netns", "exec", self.namespace, sys.executable, str(pathlib.Path(__file__).parent / "name_server.py"),
                 self.address, str(self.directory)], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
            if self.name_server.stdout.readline() != "ready\n":
                raise RuntimeError("the name server does not start")
            return self
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_):
        if self.name_server:
            self.name_server.kill()
            self.name_server.wait()
        self._remove_network()
        super().__exit__()
