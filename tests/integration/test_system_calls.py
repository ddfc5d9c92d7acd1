"""The filter of system calls and the capability sets, with the real agent, as programs of an image meet them."""
import pathlib
import platform
import signal
import subprocess

import pytest

import daemon as daemons
import images
import oci
from inside import status_field

PROGRAMS = pathlib.Path(__file__).parent / "programs"

# A call that a kernel may lack is ENOSYS, so that a program takes its other way; what needs a privilege is EPERM.
EXPECTED = {
    "socket-inet": "ok", "socket-unix": "ok", "socket-netlink": "ok", "socket-packet": "EPERM",
    "socket-alg": "ENOSYS", "socket-vsock": "ENOSYS",
    "unshare-user": "EPERM", "clone-user": "EPERM", "clone-net": "EPERM", "clone-plain": "ok", "clone3": "ENOSYS",
    "setns": "EPERM", "mount": "EPERM", "umount2": "EPERM", "pivot_root": "EPERM", "open_by_handle_at": "EPERM",
    "init_module": "EPERM", "keyctl": "EPERM", "add_key": "EPERM", "request_key": "EPERM", "bpf": "EPERM",
    "perf_event_open": "EPERM", "userfaultfd": "EPERM", "io_uring_setup": "ENOSYS",
    "ptrace-child": "ok", "personality-query": "ok", "personality-linux": "ok", "personality-no-randomize": "ENOSYS",
}
EXPECTED_X86 = {"x32-getpid": "ENOSYS", "x32-unshare": "ENOSYS"}
EXPECTED_I386 = {
    "i386-getpid": "ok", "i386-mount": "EPERM", "i386-socketcall": "EPERM", "i386-socket-inet": "ok",
    "i386-socket-alg": "ENOSYS", "i386-unshare-user": "EPERM", "i386-clone-user": "EPERM",
}

# The default set of container engines, a80425fb, without NET_RAW (bit 13).
CONTAINER_SET = 0xA80405FB


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """program(name): the bytes of programs/NAME.cpp, static."""
    folder = tmp_path_factory.mktemp("programs")

    def compiled(name):
        target = folder / name
        if not target.exists():
            subprocess.run(["g++", "-std=c++20", "-O1", "-static", "-D_GNU_SOURCE", "-o", target, PROGRAMS / f"{name}.cpp"], check=True)
        return target.read_bytes()

    return compiled


@pytest.fixture(scope="session")
def image(push, program):
    layer = oci.Layer.of(oci.entry("opt/calls", program("calls"), mode=0o755),
                         oci.entry("opt/setuid", program("identity"), mode=0o4755),
                         oci.entry("opt/plain", program("identity"), mode=0o755))
    return push(images.busybox(None, layer), "system-calls")


class Setting:
    """A daemon's answers under one pair of settings."""

    def __init__(self, daemon, image, run_uid, no_new_privs):
        self.run_uid, self.no_new_privs = run_uid, no_new_privs
        self.api = daemon.api()
        self.session = self.api.create(image)

    def output(self, command):
        return self.api.output(self.session, command)

    def capabilities(self, kind):
        return int(status_field(self.api, self.session, kind), 16)


@pytest.fixture(scope="module", params=[(1000, True), (1000, False), (0, True), (0, False)],
                ids=["user", "user-setuid", "root", "root-setuid"])
def setting(request, build, image):
    run_uid, no_new_privs = request.param
    settings = {"DAIV_SANDBOX_RUN_UID": str(run_uid), "DAIV_SANDBOX_RUN_GID": str(run_uid),
                "DAIV_SANDBOX_NO_NEW_PRIVS": str(no_new_privs).lower()}
    with daemons.Daemon(build, settings) as daemon:
        made = Setting(daemon, image, run_uid, no_new_privs)
        yield made
        made.api.close(made.session, force=True)


@pytest.fixture(scope="session")
def foreign_calls(tmp_path_factory):
    """What is expected of other calling conventions on this machine: a kernel may be built without IA32 emulation."""
    if platform.machine() != "x86_64":
        return {}
    program = tmp_path_factory.mktemp("gate") / "gate"
    subprocess.run(["gcc", "-x", "c", "-o", program, "-"], check=True, text=True,
                   input='int main(void) { int r; __asm__ volatile("int $0x80" : "=a"(r) : "a"(20)); return r <= 0; }')
    has_gate = subprocess.run([program], check=False).returncode != -signal.SIGSEGV
    return {**EXPECTED_X86, **(EXPECTED_I386 if has_gate else {})}


def test_each_call_is_answered_as_programs_expect(setting, foreign_calls):
    answers = dict(line.split() for line in setting.output("/opt/calls").splitlines())
    assert answers == {**EXPECTED, **foreign_calls}
    assert setting.output("grep Seccomp: /proc/self/status").split() == ["Seccomp:", "2"]


def test_setuid_programs_gain_ids_where_that_is_allowed_only(setting):
    user = setting.run_uid
    gained = user if setting.no_new_privs else 0
    assert setting.output("/opt/plain") == f"{user} {user} {user} {user}\n"
    assert setting.output("/opt/setuid") == f"{user} {gained} {user} {user}\n"


def test_the_capability_sets_are_no_larger_than_a_containers(setting):
    root, setuid = setting.run_uid == 0, not setting.no_new_privs
    assert setting.capabilities("CapBnd") == (CONTAINER_SET if root or setuid else 0)
    assert setting.capabilities("CapEff") == (CONTAINER_SET if root else 0)
    assert setting.capabilities("CapInh") == 0 and setting.capabilities("CapAmb") == 0
    assert status_field(setting.api, setting.session, "NoNewPrivs") == str(int(setting.no_new_privs))


def test_a_setuid_program_holds_the_container_set_and_the_filter(own_daemon, push):
    """busybox's own su, set-user-id: what it starts as root looks at its own sets."""
    busybox = pathlib.Path(images.BUSYBOX).read_bytes()
    passwd = "root::0:0:root:/root:/bin/sh\nuser:x:1000:1000::/home:/bin/sh\n"
    layer = oci.Layer.of(oci.entry("opt/su", busybox, mode=0o4755), oci.entry("etc/passwd", passwd))
    api = own_daemon(DAIV_SANDBOX_NO_NEW_PRIVS="false").api()
    session = api.create(push(images.busybox(None, layer), "su"))
    text = api.output(session, "/opt/su root -c 'id -u; cat /proc/self/status; mount -t tmpfs none /mnt || echo refused'")
    assert text.splitlines()[0] == "0"
    assert f"CapEff:\t{CONTAINER_SET:016x}" in text and "Seccomp:\t2" in text
    assert text.rstrip().endswith("refused")
    api.close(session, force=True)
