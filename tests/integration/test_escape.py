"""Escapes, tried from inside: one test per defence."""
import os
import pathlib

import pytest

from inside import python, status_field

DENIED = {"EPERM", "ENOSYS", "EACCES", "EINVAL", "EAFNOSUPPORT"}

# x86_64 numbers (syscall_64.tbl)
FORBIDDEN = {
    "mount": (165, "0, 0, 0, 0, 0"), "umount2": (166, "0, 0"), "pivot_root": (155, "0, 0"), "bpf": (321, "0, 0, 0"),
    "perf_event_open": (298, "0, 0, -1, -1, 0"), "userfaultfd": (323, "0"), "keyctl": (250, "0, 0"), "add_key": (248, "0, 0, 0, 0, 0"),
    "io_uring_setup": (425, "8, 0"), "kexec_load": (246, "0, 0, 0, 0"), "init_module": (175, "0, 0, 0"), "reboot": (169, "0, 0, 0, 0"),
    "swapon": (167, "0, 0"), "setns": (308, "0, 0"), "open_by_handle_at": (304, "0, 0, 0"), "ptrace of init": (101, "16, 1, 0, 0"),
    "unshare user": (272, "0x10000000"), "unshare mount": (272, "0x00020000"), "unshare net": (272, "0x40000000"),
    "clone user": (56, "0x10000011, 0, 0, 0, 0"), "fsopen": (430, "0, 0"), "move_mount": (429, "-1, 0, -1, 0, 0"),
    "mount_setattr": (442, "-1, 0, 0, 0, 0"), "settimeofday": (164, "0, 0"), "quotactl": (179, "0, 0, 0, 0"), "syslog": (103, "3, 0, 0"),
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_a_forbidden_call_is_denied(api, session, name):
    number, arguments = FORBIDDEN[name]
    # clone(2) that succeeds would give a second process that prints too: its word is not "denied" either.
    assert python(api, session, f"print(call({number}, {arguments}))") in DENIED | {"ESRCH", "EBADF", "EFAULT"} - ({"EFAULT"} if name in ("bpf", "io_uring_setup") else set())


def test_new_user_namespaces_are_denied_by_clone3_too(api, session):
    # struct clone_args with CLONE_NEWUSER and SIGCHLD: seccomp cannot look inside, so clone3 is ENOSYS as a whole
    assert python(api, session, "print(call(435, struct.pack('11Q', 0x10000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0), 88))") == "ENOSYS"


@pytest.mark.parametrize("family", ["AF_VSOCK", "AF_ALG", "AF_PACKET"])
def test_a_forbidden_address_family_is_denied(api, session, family):
    assert python(api, session, f"print(attempt(lambda: socket.socket(socket.{family}, socket.SOCK_RAW if '{family}' == 'AF_PACKET' else 5 if '{family}' == 'AF_ALG' else 1)))") in DENIED | {"ESOCKTNOSUPPORT"}


def test_commands_hold_no_privilege(api, session):
    assert status_field(api, session, "NoNewPrivs") == "1"
    assert status_field(api, session, "Seccomp") == "2"
    for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status_field(api, session, kind), 16) == 0, kind
    assert status_field(api, session, "Groups") == ""


def test_setuid_programs_of_the_image_give_nothing(api, start, push):
    import images
    import oci
    layer = oci.Layer.of(oci.entry("opt/id", pathlib.Path("/bin/busybox").read_bytes(), mode=0o4755))
    assert api.output(start(push(images.busybox(None, layer), "setuid")), "/opt/id id -u 2>/dev/null || cp /opt/id /tmp/busybox; "
                      "ln -s /opt/id /tmp/whoami; id -u") .splitlines()[-1] == "1000"


def test_no_descriptor_of_the_host_is_open(api, session):
    assert api.output(session, "ls -l /proc/self/fd | grep -c -e '->' ; true").strip() in {"3", "4"}  # 0 1 2 and ls's own
    assert python(api, session, "print(sorted(int(fd) for fd in os.listdir('/proc/self/fd'))[:4])") in {"[0, 1, 2, 3]"}


def test_the_agents_descriptors_and_memory_are_closed_to_commands(api, session):
    assert python(api, session, "print(attempt(lambda: os.listdir('/proc/1/fd')))") in {"EACCES", "EPERM"}
    assert python(api, session, "print(attempt(lambda: open('/proc/1/mem', 'rb')))") in {"EACCES", "EPERM"}
    assert python(api, session, "print(attempt(lambda: os.readlink('/proc/1/exe')))") in {"EACCES", "EPERM"}
    assert python(api, session, "print(attempt(lambda: os.readlink('/proc/1/root')))") in {"EACCES", "EPERM"}
    assert python(api, session, "print(attempt(lambda: os.kill(1, 9)))") == "EPERM"


def test_no_variable_of_the_daemon_is_visible(api, session):
    assert "DAIV_SANDBOX" not in api.output(session, "env; cat /proc/self/environ | tr '\\0' '\\n'")


def test_no_host_path_is_visible(daemon, api, session):
    visible = api.output(session, "cat /proc/self/mountinfo /proc/self/cgroup /proc/mounts")
    # An overlay's options name its layers relative to a folder that is not named.
    assert str(daemon.directory) not in visible and "/var/tmp" not in visible


def test_processes_of_the_host_are_not_visible(api, session):
    assert api.output(session, "ps -eo pid --no-headers | head -1").strip() == "1"
    assert len(api.output(session, "ps -e --no-headers").splitlines()) < 10


def test_the_network_is_empty(api, session):
    assert api.output(session, "ls /sys/class/net").split() == ["lo"]
    assert python(api, session, "print(attempt(lambda: socket.create_connection(('198.19.1.1', 443), 2)))") in {"ENETUNREACH", "EHOSTUNREACH"}


def test_the_hosts_abstract_sockets_are_out_of_reach(api, session):
    import socket
    with socket.socket(socket.AF_UNIX) as listener:
        name = f"\0daiv-test-{os.getpid()}"
        listener.bind(name)
        listener.listen()
        assert python(api, session, f"print(attempt(lambda: socket.socket(socket.AF_UNIX).connect({name!r})))") == "ECONNREFUSED"


def test_loopback_of_the_host_is_out_of_reach(daemon, api, session):
    assert python(api, session, f"print(attempt(lambda: socket.create_connection(('127.0.0.1', {daemon.port}), 2)))") == "ECONNREFUSED"


READ_ONLY = ["/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/irq/default_smp_affinity", "/proc/sys/vm/overcommit_memory",
             "/sys/kernel/mm/transparent_hugepage/enabled", "/proc/sys/kernel/hostname"]
MASKED = ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/latency_stats", "/proc/sched_debug"]


@pytest.mark.parametrize("path", READ_ONLY)
def test_a_control_file_of_the_kernel_is_not_writable(api, session, path):
    assert api.run_one(session, f"[ -e {path} ] || exit 1; echo x > {path}")[1] != 0


@pytest.mark.parametrize("path", MASKED)
def test_a_revealing_file_of_the_kernel_is_masked(api, session, path):
    assert api.run_one(session, f"head -c 64 {path} 2>/dev/null | tr -d '\\0'")[0] == ""


def test_nothing_under_sys_is_writable(api, session):
    assert api.output(session, "find /sys -maxdepth 3 -writable 2>/dev/null | grep -v -e fs/cgroup; true") == ""


def test_the_cgroup_cannot_be_left(api, session):
    assert api.run_one(session, "for d in $(find /sys/fs/cgroup -name cgroup.procs 2>/dev/null); do echo $$ > $d && exit 9; done 2>/dev/null; true")[1] != 9
    assert api.output(session, "cat /proc/self/cgroup").strip().rpartition(":")[2].count("..") == 0


def test_device_nodes_are_the_harmless_ones(api, session):
    nodes = set(api.output(session, "find /dev -type b -o -type c | sort").split())
    assert not [node for node in nodes if node not in {
        "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts/ptmx", "/dev/console"}]
    assert python(api, session, "print(attempt(lambda: os.mknod('/tmp/disk', 0o60666, os.makedev(254, 0))))") == "EPERM"


def test_a_symlink_to_a_secret_reads_the_sandboxs_own(api, session):
    api.run(session, "ln -s /etc/passwd link; ln -s /proc/self/root/etc/shadow shadow")
    answer = api.fs(session, "read", path="/workspace/repo/link")
    assert answer["error"] or pathlib.Path("/etc/passwd").read_text() != answer["content"]
    assert api.fs(session, "read", path="/workspace/repo/shadow")["error"]["code"] == "permission_denied"


def test_the_ipc_namespace_is_its_own(api, session):
    assert api.output(session, "cat /proc/sysvipc/shm | wc -l").strip() == "1"


def test_run_uid_0_has_no_more_than_a_containers_capabilities(own_daemon, debian):
    daemon = own_daemon(DAIV_SANDBOX_RUN_UID="0", DAIV_SANDBOX_RUN_GID="0")
    api = daemon.api()
    session = api.create(debian)
    assert api.output(session, "id -u") == "0\n"
    # The default container set is a80425fb; without NET_RAW (bit 13).
    assert int(status_field(api, session, "CapBnd"), 16) & ~(0xA80425FB & ~(1 << 13)) == 0
    assert python(api, session, "print(call(165, b'none', b'/mnt', b'tmpfs', 0, 0))") in DENIED
    outside = int(api.output(session, "cat /proc/self/uid_map").split()[1])
    assert outside in daemon.uids, "root inside is nobody outside"
    assert api.run_one(session, "echo x > /proc/sys/kernel/core_pattern")[1] != 0
    api.close(session, force=True)
