"""What a sandbox with egress reaches besides the proxy's ports: nothing, and it learns so at once."""
import pathlib
import socket
import subprocess
import time

import pytest

import daemon as daemons
import inside
import test_egress
from egress_fixtures import make_ca

# The fixtures that both files share.
api, box, egress_daemon = test_egress.api, test_egress.box, test_egress.egress_daemon

AT_ONCE_SECONDS = 1.0

REACH = """
import time
def reach(kind, address, port, family=socket.AF_INET):
    begun = time.monotonic()
    s = socket.socket(family, kind)
    s.settimeout(5)
    result = attempt(s.connect, (address, port))
    if result == 'ok' and kind == socket.SOCK_DGRAM:
        def exchange():
            s.send(b'x')
            s.recv(10)
        result = attempt(exchange)
    print(kind.name, address, port, result, 'slow' if time.monotonic() - begun > 1 else 'fast')
proxy = os.environ['HTTP_PROXY'].removeprefix('http://').split(':')[0]
"""


def reach(api, session, *calls):  # noqa: F811
    source = REACH + "\n".join(f"reach({call})" for call in calls)
    return [line.split() for line in inside.python(api, session, source).splitlines()]


@pytest.fixture(scope="module")
def listener():
    """A service of the host that listens on all its addresses."""
    with socket.create_server(("0.0.0.0", 0)) as server:
        yield server.getsockname()[1]


def host_addresses():
    lines = subprocess.run(["ip", "-o", "-4", "address"], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    return [line.split()[3].split("/")[0] for line in lines if " lo " not in line]


def test_no_address_but_the_proxys_answers(api, box, origins, listener):  # noqa: F811
    session = box()
    targets = [*host_addresses(), origins.address, "198.19.8.8", "198.19.0.1", "169.254.169.254", "198.19.255.1", "224.0.0.1"]
    calls = [f"socket.SOCK_STREAM, '{address}', {listener}" for address in targets]
    calls += [f"socket.SOCK_DGRAM, '{address}', 53" for address in targets if address != "224.0.0.1"]
    for line in reach(api, session, *calls):
        assert line[-2] == "ENETUNREACH" and line[-1] == "fast", line


def test_the_proxys_address_has_the_proxys_ports_alone(api, box):  # noqa: F811
    session = box()
    lines = reach(api, session, "socket.SOCK_STREAM, proxy, 8080", "socket.SOCK_STREAM, proxy, 53",
                  "socket.SOCK_STREAM, proxy, 22", "socket.SOCK_STREAM, proxy, 8000", "socket.SOCK_DGRAM, proxy, 5353",
                  "socket.SOCK_DGRAM, proxy, 8080")
    assert [line[-2] for line in lines] == ["ok", "ok", "ECONNREFUSED", "ECONNREFUSED", "ECONNREFUSED", "ECONNREFUSED"]
    assert all(line[-1] == "fast" for line in lines)


def test_another_session_and_its_proxy_do_not_answer(api, box):  # noqa: F811
    first, second = box(), box()
    theirs = api.output(second, "echo $HTTP_PROXY").strip().removeprefix("http://").split(":")[0]
    numbers = theirs.split(".")
    sandbox = ".".join([*numbers[:3], str(int(numbers[3]) + 1)])
    for line in reach(api, first, f"socket.SOCK_STREAM, '{theirs}', 8080", f"socket.SOCK_STREAM, '{sandbox}', 8080"):
        assert line[-2] == "ENETUNREACH" and line[-1] == "fast", line


def test_there_is_no_ipv6_but_loopbacks_own(api, box):  # noqa: F811
    session = box()
    lines = reach(api, session, "socket.SOCK_STREAM, '2001:db8::1', 80, socket.AF_INET6",
                  "socket.SOCK_STREAM, '::ffff:198.19.8.8', 81, socket.AF_INET6", "socket.SOCK_STREAM, '::1', 1, socket.AF_INET6")
    assert lines[0][-2] in ("ENETUNREACH", "EADDRNOTAVAIL")
    assert lines[1][-2] == "ENETUNREACH" and lines[2][-2] == "ECONNREFUSED"
    interfaces = api.output(session, "cat /proc/net/if_inet6 | awk '{print $6}'").split()
    assert set(interfaces) <= {"lo"}


def test_raw_and_packet_sockets_and_ping_are_denied(api, box):  # noqa: F811
    session = box()
    words = inside.python(api, session, """
        print(attempt(socket.socket, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
        print(attempt(socket.socket, socket.AF_PACKET, socket.SOCK_RAW, 0x300))
        print(attempt(socket.socket, socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP))
        """).split()
    assert all(word in ("EPERM", "EACCES", "EAFNOSUPPORT") for word in words), words


def test_the_network_cannot_be_changed_from_inside(api, box):  # noqa: F811
    session = box()
    words = inside.python(api, session, """
        import fcntl
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        print(attempt(fcntl.ioctl, s, 0x8914, struct.pack('16sH', b'eth0', 0)))
        try:
            open('/proc/sys/net/ipv4/ip_forward', 'w')
            print('ok')
        except OSError as error:
            print(errno.errorcode[error.errno])
        """).split()
    assert all(word in ("EPERM", "EACCES", "EROFS") for word in words), words


def test_clients_of_other_ports_that_ignore_the_proxy_fail_at_once(api, box):  # noqa: F811
    session = box()
    for command in ("curl -sS --noproxy '*' http://allowed.test:8000/", "git ls-remote git://git.test/repo",
                    "curl -sS --noproxy '*' http://198.19.8.8:8080/", "bash -c 'exec 3<>/dev/tcp/198.19.2.3/22'"):
        begun = time.monotonic()
        _, code = api.run_one(session, command)
        assert code != 0 and time.monotonic() - begun < AT_ONCE_SECONDS + 1, command


def test_a_session_without_egress_has_loopback_alone(api, busybox):  # noqa: F811
    session = api.create(busybox)
    try:
        assert api.output(session, "ls /sys/class/net; env | grep -ci proxy; true") == "lo\n0\n"
    finally:
        api.close(session, force=True)


def test_nothing_of_a_link_lies_in_the_hosts_namespace(api, box):  # noqa: F811
    before = {entry.name for entry in pathlib.Path("/sys/class/net").iterdir()}
    box()
    assert {entry.name for entry in pathlib.Path("/sys/class/net").iterdir()} - before == set()


def test_a_host_whose_interface_is_unknown_keeps_the_daemon_from_starting(build, tmp_path):
    made = daemons.Daemon(build, {"DAIV_SANDBOX_EGRESS_PROXY_NETWORK": "no-such-if0", **make_ca(build, tmp_path)})
    try:
        with pytest.raises(RuntimeError, match="no interface of that name, nor a network namespace"):
            made.start()
    finally:
        made.remove()
