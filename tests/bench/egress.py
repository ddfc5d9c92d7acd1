"""What the proxy costs: the same client with and without it, in one run. A part of bench.py.

nginx is the origin, in the network namespace of origins.py; h2load, curl and a TLS client of Python are the clients. Direct,
they run on the host; proxied, in the network namespace of a session. CPU is that of the front, in which the proxy runs.
"""
import concurrent.futures
import contextlib
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import daemon as daemons
from egress_fixtures import make_ca, origin_servers, policy, rule

GIB = 1 << 30
SMALL, LARGE = "small", "large"
INTERCEPTED, TUNNELLED = "cred.test", "tunnel.test"
NEW_CONNECTIONS = 300
IDLE_SESSIONS = 50
POLICY = policy(rule(INTERCEPTED, inject="token"), rule(TUNNELLED))


def configuration(origins, address, root):
    tls = f"ssl_certificate {origins.directory}/leaf.pem; ssl_certificate_key {origins.directory}/key.pem;"
    return f"""
daemon off; master_process off; pid {root}/nginx.pid; error_log stderr crit; user root;
events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests 10000000; keepalive_timeout 600s; sendfile on; tcp_nodelay on;
  client_body_temp_path {root}/body; proxy_temp_path {root}/proxy; fastcgi_temp_path {root}/fastcgi;
  uwsgi_temp_path {root}/uwsgi; scgi_temp_path {root}/scgi;
  server {{ listen {address}:443 ssl http2; listen {address}:80; {tls} root {root}; }}
}}
"""


@contextlib.contextmanager
def nginx(origins):
    """The address of a web server on ports 80 and 443, beside the origins' own."""
    address = origins.address.rsplit(".", 1)[0] + ".3"
    subprocess.run(["ip", "-n", origins.namespace, "address", "add", f"{address}/24", "dev", "origin0"], check=True)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as scratch:
        root = pathlib.Path(scratch)
        root.chmod(0o755)
        (root / SMALL).write_text("x" * 100)
        with (root / LARGE).open("wb") as file:
            file.truncate(GIB)
        (root / "conf").write_text(configuration(origins, address, root))
        process = subprocess.Popen(["ip", "netns", "exec", origins.namespace, "nginx", "-p", root, "-c", root / "conf"],
                                   stdin=subprocess.DEVNULL)
        try:
            wait_for_port(address)
            yield address
        finally:
            process.terminate()
            process.wait()


def wait_for_port(address, seconds=20):
    deadline = time.monotonic() + seconds
    while True:
        try:
            return socket.create_connection((address, 443), 1).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)  # a port tells nobody that it listens


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Bench:
    def __init__(self, table, daemon, api, session, ca, address):
        self.table, self.daemon, self.api, self.session, self.ca, self.address = table, daemon, api, session, ca, address
        self.inside = ["nsenter", "-t", str(next(iter(daemons.processes_of(daemon.uids)))), "-n"]
        self.proxy = api.output(session, "echo $https_proxy").strip()
        # What the session's resolver says: connections to it are taken by the transparent mode.
        self.synthetic = {name: api.output(session, f"getent ahostsv4 {name} | head -n 1 | cut -d ' ' -f 1").strip()
                          for name in (INTERCEPTED, TUNNELLED)}

    def run(self, words, proxied, **environment):
        started, cpu = time.perf_counter(), cpu_seconds(self.daemon.process.pid)
        done = subprocess.run([*(self.inside if proxied else []), *map(str, words)], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=True,
                              env={"PATH": os.environ["PATH"], **environment})
        return done.stdout, time.perf_counter() - started, cpu_seconds(self.daemon.process.pid) - cpu

    def download(self, name, proxied, *more):
        trust = self.ca if proxied and name == INTERCEPTED else self.daemon.settings["DAIV_SANDBOX_EGRESS_UPSTREAM_CA_FILE"]
        way = ["-x", self.proxy] if proxied else ["--resolve", f"{name}:443:{self.address}"]
        return self.run(["curl", "-sS", "--fail", "-o", "/dev/null", "--cacert", trust, *way, *more, f"https://{name}/{LARGE}"], proxied)[1:]

    def downloads(self):
        for version in ("--http1.1", "--http2"):
            direct = min(self.download(INTERCEPTED, False, version)[0] for _ in range(2))
            self.table.add(f"1 GiB over TLS, direct, {version[2:]}", direct * 1e3, "ms")
            for name, what, share, cpu_limit in ((INTERCEPTED, "intercepted", 0.5, 1.5), (TUNNELLED, "tunnelled", 0.8, 0.3)):
                taken, cpu = min(self.download(name, True, version) for _ in range(2))
                self.table.add(f"1 GiB {what}, {version[2:]}: share of direct", direct / taken, "×", f"≥ {share}", direct / taken >= share)
                self.table.add(f"1 GiB {what}, {version[2:]}: CPU of the proxy", cpu, "s", f"≤ {cpu_limit}", cpu <= cpu_limit)

    def load(self, proxied, count, clients, *more):
        """(sorted times of the requests in ms, seconds, CPU seconds) of h2load."""
        target = self.synthetic[INTERCEPTED] if proxied else self.address
        with tempfile.NamedTemporaryFile("r") as log:
            out, _, cpu = self.run(["h2load", f"-n{count}", f"-c{clients}", *more, f"--connect-to={target}:443",
                                    f"--log-file={log.name}", f"https://{INTERCEPTED}/{SMALL}"], proxied)
            lines = [line.split() for line in log.read().splitlines()]
        if f"{count} succeeded" not in out:
            raise RuntimeError(out)
        seconds = next(float(line.split()[2].rstrip("s,").rstrip("m")) * (1e-3 if "ms," in line else 1)
                       for line in out.splitlines() if line.startswith("finished in"))
        return sorted(int(fields[2]) / 1e3 for fields in lines), seconds, cpu

    def requests(self):
        for kind, more in (("http/1.1", ["--h1"]), ("h2", [])):
            direct = statistics.median(self.load(False, 5000, 1, *more)[0])
            times, _, cpu = self.load(True, 5000, 1, *more)
            added = statistics.median(times) - direct
            self.table.add(f"kept-alive {kind} request: added latency p50", added, "ms", "≤ 0.3", added <= 0.3)
            self.table.add(f"kept-alive {kind} request: CPU of the proxy", cpu / 5000 * 1e3, "ms", "≤ 0.1", cpu / 5000 * 1e3 <= 0.1)
            plain = 40000 / self.load(False, 40000, 64, *more)[1]
            _, seconds, cpu = self.load(True, 40000, 64, *more)
            self.table.add(f"{kind} requests over 64 connections, direct", plain, "/s")
            self.table.add(f"{kind} requests over 64 connections", 40000 / seconds, "/s", "≥ 5,000/s", 40000 / seconds >= 5000)
            self.table.add(f"{kind} requests over 64 connections: CPU of the proxy", cpu / 40000 * 1e3, "ms")

    def new_connections(self):
        program = str(pathlib.Path(__file__).with_name("new_connections.py"))
        def times(proxied):
            trust = self.ca if proxied else self.daemon.settings["DAIV_SANDBOX_EGRESS_UPSTREAM_CA_FILE"]
            target = self.synthetic[INTERCEPTED] if proxied else self.address
            out, _, cpu = self.run([sys.executable, program, target, INTERCEPTED, trust, NEW_CONNECTIONS], proxied)
            return float(out), cpu / NEW_CONNECTIONS * 1e3
        direct, (taken, cpu) = times(False)[0], times(True)
        self.table.add("new intercepted connection: added latency p50", taken - direct, "ms", "≤ 3", taken - direct <= 3)
        self.table.add("new intercepted connection: CPU of the proxy", cpu, "ms", "≤ 1", cpu <= 1)

    def many_downloads(self, count=100, seconds=8):
        """The front's memory while so many large bodies go through it and clients take them as fast as they can."""
        before = resident(self.daemon.process.pid)
        words = ["h2load", "--h1", f"-c{count}", f"-D{seconds}", f"--connect-to={self.synthetic[INTERCEPTED]}:443",
                 f"https://{INTERCEPTED}/{LARGE}"]
        peak = before
        with subprocess.Popen([*self.inside, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            while process.poll() is None:
                peak = max(peak, resident(self.daemon.process.pid))
                time.sleep(0.1)
        more = (peak - before) / (1 << 20)
        self.table.add(f"memory of {count} downloads at once", more, "MB", "≤ 64", more <= 64)


def resident(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    return 0


def p50_of_creation(api, reference, **more):
    times = []
    for _ in range(30):
        started = time.perf_counter()
        session = api.create(reference, **more)
        times.append((time.perf_counter() - started) * 1e3)
        api.close(session, force=True)
    return statistics.median(times)


def creation(table, daemon, reference):
    api = daemon.api()
    more = p50_of_creation(api, reference, egress=POLICY) - p50_of_creation(api, reference)
    table.add("creation with egress: more than without", more, "ms", "≤ 6", more <= 6)


def idle_sessions(table, daemon, reference):
    """What an idle session with egress takes in the front more than one without."""
    def growth(**more):
        before = resident(daemon.process.pid)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            made = list(pool.map(lambda _: daemon.api().create(reference, **more), range(IDLE_SESSIONS)))
            taken = (resident(daemon.process.pid) - before) / IDLE_SESSIONS / (1 << 20)
            list(pool.map(lambda session: daemon.api().close(session, force=True), made))
        return taken
    each = growth(egress=POLICY)
    table.add(f"memory of one idle egress session (of {IDLE_SESSIONS}), in the front", each, "MB", "≤ 1", each <= 1)


def measure(table, build, reference):
    """Adds every figure, in sessions of the image at REFERENCE."""
    with origin_servers.Origins() as origins, nginx(origins) as address, daemons.Daemon(build) as daemon:
        daemon.stop()
        names = ",".join(f"{name}:{address}" for name in (INTERCEPTED, TUNNELLED))
        daemon.settings.update(make_ca(build, daemon.directory))
        daemon.settings.update(origins.settings)
        daemon.settings["DAIV_SANDBOX_EGRESS_EXTRA_HOSTS"] = names
        daemon.start()
        daemon.cli("pull", reference)
        idle_sessions(table, daemon, reference)
        creation(table, daemon, reference)
        api = daemon.api(timeout=600)
        session = api.create(reference, egress=POLICY)
        bench = Bench(table, daemon, api, session, daemon.settings["DAIV_SANDBOX_EGRESS_CA_CERT_FILE"], address)
        bench.requests()
        bench.new_connections()
        bench.downloads()
        bench.many_downloads()
        daemon.api().close(session, force=True)
