#!/usr/bin/env python3
"""The main job for real: a registry, a pull, a session, a repository, commands. Called by ./dev demo.

Everything runs on this machine with defaults of its own, and is removed at the end; only the built images stay cached.
"""
import argparse
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import time

import daemon as daemons
import images
import oci
import origins as origin_servers
import registry as registries
from egress_fixtures import SECRET, make_ca, policy, rule

ROOT = pathlib.Path(__file__).resolve().parents[2]

PYTHON_SCRIPT = """
import collections, pathlib
lines = collections.Counter()
for path in pathlib.Path('.').rglob('*'):
    if path.suffix in ('.cpp', '.hpp', '.py') and path.is_file():
        lines[path.suffix] += len(path.read_text().splitlines())
for suffix, count in sorted(lines.items()):
    print(f'{suffix:5} {count:6} lines')
"""


class Steps:
    """Prints what happens as it happens, and at the end the table."""

    def __init__(self):
        self.rows = []

    def __call__(self, name, function, *arguments, **more):
        print(f"\n-- {name}", flush=True)
        started = time.perf_counter()
        result = function(*arguments, **more)
        self.rows.append((name, (time.perf_counter() - started) * 1e3))
        return result

    def table(self):
        width = max(len(name) for name, _ in self.rows)
        print(f"\n{'step'.ljust(width)}  {'time':>12}")
        for name, milliseconds in self.rows:
            print(f"{name.ljust(width)}  {milliseconds:9.1f} ms")


def repository_archive():
    """This project's files at HEAD with their .git, so that `git status` inside has something to compare with."""
    with tempfile.TemporaryDirectory() as scratch:
        clone = pathlib.Path(scratch, "repo")
        subprocess.run(["git", "clone", "-q", "--no-local", "--depth=1", f"file://{ROOT}", clone], check=True,
                       env={"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*",
                            "PATH": "/usr/bin:/bin", "HOME": scratch})
        packed = pathlib.Path(scratch, "repo.tar.gz")
        with tarfile.open(packed, "w:gz") as archive:
            archive.add(clone, arcname=".")
        return packed.read_bytes()


def show(results):
    for command, (output, code) in results:
        print(f"   $ {command.strip().splitlines()[0]}")
        for line in output.splitlines()[:12]:
            print(f"   {line}")
        print(f"   exit code {code}")


def run(api, session, *commands):
    results = list(zip(commands, api.run(session, *commands)))
    show(results)
    return [result for _, result in results]


def expect(what, condition):
    if not condition:
        raise SystemExit(f"demo: {what}")


def seed(api, session, archive):
    status, body = api.seed(session, repo=archive)
    expect(f"the seed was refused: {status} {body!r}", status == 204)


def pull(daemon, reference):
    done = daemon.cli("pull", reference)
    print("".join(f"   {line}\n" for line in done.stdout.splitlines()), end="")
    expect(f"the pull failed: {done.stderr}", done.returncode == 0)


def demonstrate(step, daemon, references, archive):
    for name, reference in references.items():
        step(f"pull {name}", pull, daemon, reference)
    api = daemon.api()
    session = step("create a session (debian)", api.create, references["debian"])
    print(f"   session {session}")
    step("seed this repository", seed, api, session, archive)
    (_, code), (log, _) = step("git status, git log", run, api, session, "git status", "git log --oneline | head -3")
    expect("git status failed", code == 0 and log)
    (_, code), = step("a Python script", run, api, session, f"python3 - <<'END'\n{PYTHON_SCRIPT}END")
    expect("the script failed", code == 0)
    (_, code), = step("a failing pipeline", run, api, session, "grep -c no-such-line README.md | cat")
    expect("the pipeline's failure was lost", code == 1)
    (_, code), = step("what the sandbox is", run, api, session, "id; hostname; ls /sys/class/net; cat /proc/self/uid_map")
    step("write and keep a file", run, api, session, "echo kept > kept.txt")
    step("close (kept warm)", api.close, session)
    expect("the session did not reopen", step("reopen", api.status, session) == 204)
    (output, _), = step("the file is still there", run, api, session, "cat kept.txt")
    expect("the file is gone", output == "kept\n")
    step("close (removed)", api.close, session, force=True)
    other = step("create a session (busybox)", api.create, references["busybox"])
    step("a command in it", run, api, other, "busybox | head -1")
    step("close (removed), busybox", api.close, other, force=True)


def demonstrate_egress(step, daemon, origins, image):
    api = daemon.api()
    allowed = policy(rule("allowed.test"), rule("cred.test", inject="token"))
    session = step("create a session with egress", api.create, image, egress=allowed)
    (output, _), = step("a host that no rule names", run, api, session, "curl -sS http://denied.test/; true")
    expect("the denied host was reached", "not allowed" in output and not origins.requests("denied.test"))
    (output, _), = step("a host that a rule names", run, api, session, "curl -sS http://allowed.test/hello")
    expect("the allowed host was not reached", output == "GET allowed.test /hello\n")
    (output, code), = step("a host with an injected credential, over TLS", run, api, session, "curl -sS https://cred.test/hello")
    sent = [value for name, value in origins.requests("cred.test")[-1]["headers"] if name == "Authorization"]
    print(f"   the origin was sent: Authorization: {sent}")
    expect("the credential did not arrive", code == 0 and sent == [SECRET])
    (output, _), = step("which the sandbox cannot see", run, api, session, "env | grep -c s3cr3[t]; grep -rls s3cr3[t] /etc /home /tmp /workspace | wc -l; true")
    expect("the sandbox sees the credential", output.split() == ["0", "0"])
    (output, _), = step("a program that knows no proxy", run, api, session, "curl -sS --noproxy '*' http://198.18.0.99/")
    expect("what knows no proxy is not judged", output.startswith("egress: destination not allowed"))
    (_, code), = step("past the proxy", run, api, session, "curl -sS --noproxy '*' http://198.18.0.99:8080/")
    expect("there is a way past the proxy", code != 0)
    step("close (removed), egress", api.close, session, force=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    options = parser.parse_args()
    step, references = Steps(), {}
    built = {name: step(f"image {name} from Debian packages (cached after the first time)", images.get, name, ROOT / "build/images")
             for name in ("debian", "busybox")}
    archive = step("pack this repository", repository_archive)
    with step("start a registry (docker-registry)", registries.Registry) as registry:
        print(f"   {registry.address}")
        for name, image in built.items():
            references[name] = step(f"push {name}", oci.push, image, registry.address, name, "demo")
        daemon = daemons.Daemon(options.build.resolve())
        with origin_servers.Origins() as origins:
            try:
                daemon.settings.update(origins.settings)
                daemon.settings.update(step("make an egress CA", make_ca, daemon.build, daemon.directory))
                step("start the daemon", daemon.start)
                print(f"   http://127.0.0.1:{daemon.port}")
                demonstrate(step, daemon, references, archive)
                demonstrate_egress(step, daemon, origins, references["debian"])
            finally:
                daemon.remove()
    step.table()
    print("\nEverything worked; the registry, the daemon and their files are gone again.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
