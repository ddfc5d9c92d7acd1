"""Transparent mode: programs that know no proxy reach what the policy allows, and all else fails at once."""
import pathlib
import subprocess
import time

import pytest

import daemon as daemons
import images
import inside
import oci
import test_egress
from egress_fixtures import SECRET, STANDARD, make_ca, policy, rule

# The fixtures that the tests of egress share.
api, box, egress_daemon = test_egress.api, test_egress.box, test_egress.egress_daemon

# Against a hang: nothing here waits for anybody.
AT_ONCE_SECONDS = 10.0
BARE = "env -u HTTP_PROXY -u HTTPS_PROXY -u http_proxy -u https_proxy -u ALL_PROXY -u all_proxy"
REFUSED = test_egress.REFUSED


def bare(api, session, command):  # noqa: F811
    """(output, exit code) of a command without the proxy's variables; it must not take long."""
    begun = time.monotonic()
    result = api.run_one(session, f"{BARE} {command}")
    assert time.monotonic() - begun < AT_ONCE_SECONDS, command
    return result


@pytest.fixture(scope="module")
def static_image(push, tmp_path_factory):
    """busybox, whose wget is used too, with the static program plain_web."""
    target = tmp_path_factory.mktemp("programs") / "plain_web"
    source = pathlib.Path(__file__).parent / "programs" / "plain_web.cpp"
    subprocess.run(["g++", "-std=c++20", "-O1", "-static", "-D_GNU_SOURCE", "-o", target, source], check=True,
                   stderr=subprocess.PIPE)
    layer = oci.Layer.of(oci.entry("opt/plain_web", target.read_bytes(), mode=0o755))
    return push(images.busybox(None, layer), "plain-web")


def test_curl_without_a_proxy_is_judged_by_the_policy(api, box, origins):  # noqa: F811
    session = box()
    assert bare(api, session, "curl -sS --noproxy '*' http://allowed.test/x") == ("GET allowed.test /x\n", 0)
    assert bare(api, session, "curl -sS --noproxy '*' https://cred.test/x") == ("GET cred.test /x\n", 0)
    assert [test_egress.authorization(one) for one in origins.requests("cred.test")] == [[SECRET]]
    for scheme in ("http", "https"):
        output, code = bare(api, session, f"curl -sS --noproxy '*' -w '%{{http_code}}' {scheme}://denied.test/x")
        assert code == 0 and output.startswith(REFUSED) and output.endswith("403"), scheme
    assert origins.requests("denied.test") == []


def test_methods_are_limited_as_through_the_proxy(api, box, origins):  # noqa: F811
    session = box()
    assert bare(api, session, "curl -sS --noproxy '*' https://limited.test/x") == ("GET limited.test /x\n", 0)
    output, _ = bare(api, session, "curl -sS --noproxy '*' -X DELETE -w '%{http_code}' https://limited.test/x")
    assert output.startswith(REFUSED) and output.endswith("403")
    assert [one["method"] for one in origins.requests("limited.test")] == ["GET"]


def test_a_tunnelled_host_is_relayed_untouched(api, box, origins):  # noqa: F811
    session = box()
    output, code = bare(api, session, "curl -skv --noproxy '*' https://tunnel.test/x 2>&1")
    assert code == 0 and "issuer: CN=origins of a test" in output and "GET tunnel.test /x" in output


def test_pythons_own_client_knows_no_proxy(api, box, origins):  # noqa: F811
    session = box()
    words = inside.python(api, session, """
        import http.client, ssl
        for connection in (http.client.HTTPConnection('allowed.test'),
                           http.client.HTTPSConnection('cred.test', context=ssl.create_default_context())):
            connection.request('GET', '/p')
            print(connection.getresponse().read().decode().strip())
        with socket.create_connection(('denied.test', 443)) as raw:
            with ssl.create_default_context().wrap_socket(raw, server_hostname='denied.test') as tls:
                tls.sendall(b'GET / HTTP/1.1\\r\\nHost: denied.test\\r\\n\\r\\n')
                print(tls.recv(4096).split(b'\\r\\n')[0].decode())
        """).splitlines()
    assert words == ["GET allowed.test /p", "GET cred.test /p", "HTTP/1.1 403 Forbidden"]


def test_static_programs_find_their_way(api, egress_daemon, static_image, origins):  # noqa: F811
    session = api.create(static_image, egress=STANDARD)
    try:
        output, code = bare(api, session, "/opt/plain_web allowed.test 80 /static")
        assert code == 0 and output.startswith("HTTP/1.1 200") and output.endswith("GET allowed.test /static\n")
        output, _ = bare(api, session, "/opt/plain_web denied.test 80 /static")
        assert output.startswith("HTTP/1.1 403")
        assert bare(api, session, "/opt/plain_web allowed.test 22") == ("ENETUNREACH\n", 1)
        assert bare(api, session, "wget -q -O - http://allowed.test/w") == ("GET allowed.test /w\n", 0)
        output, code = bare(api, session, "wget -q -O - http://denied.test/w")
        assert code != 0
    finally:
        api.close(session, force=True)


def test_the_name_that_was_looked_up_is_the_name_that_is_asked_for(api, box, origins):  # noqa: F811
    session = box(policy(rule("allowed.test"), rule("cred.test", inject="token"), rule("tunnel.test")))
    output, _ = bare(api, session, "curl -sS --noproxy '*' -w '%{http_code}' -H 'Host: cred.test' http://allowed.test/")
    assert output.endswith("421")
    output, code = bare(api, session, "curl -sS -k --noproxy '*' --connect-to cred.test:443:tunnel.test:443 https://cred.test/")
    assert code == 35 and "denied" in output
    output, _ = bare(api, session, "curl -sS -k --noproxy '*' -w '%{http_code}' -H 'Host: allowed.test' https://cred.test/")
    assert output.endswith("421")
    assert origins.requests() == []


def test_at_a_literal_address_the_name_asked_for_decides(api, box, origins):  # noqa: F811
    session = box()
    assert bare(api, session, "curl -sS --noproxy '*' --resolve allowed.test:80:198.19.0.9 http://allowed.test/l") == ("GET allowed.test /l\n", 0)
    output, _ = bare(api, session, "curl -sS --noproxy '*' -w '%{http_code}' --resolve denied.test:80:198.19.0.9 http://denied.test/l")
    assert output.endswith("403")
    for url in (f"http://{origins.address}/", f"https://{origins.address}/"):
        output, _ = bare(api, session, f"curl -sS -k --noproxy '*' -w '%{{http_code}}' {url}")
        assert output.startswith(REFUSED) and output.endswith("403"), url
    assert [one["host"] for one in origins.requests()] == ["allowed.test"]


def test_a_rule_for_a_literal_address_holds(api, box, origins):  # noqa: F811
    session = box(policy(rule(origins.address)))
    assert bare(api, session, f"curl -sS --noproxy '*' http://{origins.address}/l") == (f"GET {origins.address} /l\n", 0)


def test_the_resolver_answers_every_name_and_asks_nobody(api, box):  # noqa: F811
    session = box()
    lines = inside.python(api, session, """
        proxy = os.environ['HTTP_PROXY'].removeprefix('http://').split(':')[0]
        print(open('/etc/resolv.conf').read().split()[:2] == ['nameserver', proxy])
        first = socket.gethostbyname('allowed.test')
        print(first == socket.gethostbyname('ALLOWED.test.'), first.startswith('100.112.'))
        print(first != socket.gethostbyname('a' * 63 + '.secret.denied.test'))
        print(socket.gethostbyname('localhost'))
        try:
            print(socket.getaddrinfo('allowed.test', 443, socket.AF_INET6))
        except socket.gaierror:
            print('none')
        query = b'id\\x01\\0\\0\\x01\\0\\0\\0\\0\\0\\0\\x07allowed\\x04test\\0\\0\\x01\\0\\x01'
        with socket.create_connection((proxy, 53)) as tcp:
            tcp.sendall(struct.pack('!H', len(query)) + query)
            size, = struct.unpack('!H', tcp.recv(2, socket.MSG_WAITALL))
            print(socket.inet_ntoa(tcp.recv(size, socket.MSG_WAITALL)[-4:]) == first)
        """).splitlines()
    assert lines == ["True", "True True", "True", "127.0.0.1", "none", "True"]


def test_what_is_not_of_the_web_fails_at_once(api, box, origins):  # noqa: F811
    session = box(policy(rule("*"), rule(origins.address), default="allow"))
    begun = time.monotonic()
    words = inside.python(api, session, f"""
        for host in ('allowed.test', '{origins.address}', '198.19.8.8', '198.19.0.1'):
            for port in (22, 53, 8080, 9418):
                print(attempt(socket.create_connection, (host, port)))
            address = (socket.gethostbyname(host), 443)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as quic:
                print(attempt(quic.sendto, b'x', address))
            print(attempt(socket.socket, socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP))
        for address in ('2001:db8::1', '::ffff:198.19.8.8'):
            six = socket.socket(socket.AF_INET6)
            print(attempt(six.connect, (address, 22)))
        for address in ('169.254.169.254', '224.0.0.1', '255.255.255.255'):
            with socket.socket() as tcp:
                print(attempt(tcp.connect, (address, 80)))
        """).split()
    assert time.monotonic() - begun < AT_ONCE_SECONDS
    assert set(words) <= {"ENETUNREACH", "EACCES", "EPERM", "EADDRNOTAVAIL"}, words


def test_many_refused_datagrams_all_hear_of_it(api, box):  # noqa: F811
    session = box()
    assert inside.python(api, session, """
        proxy = os.environ['HTTP_PROXY'].removeprefix('http://').split(':')[0]
        words = set()
        for port in range(2000, 2050):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
                udp.settimeout(20)
                udp.connect((proxy, port))
                udp.send(b'x')
                words.add(attempt(udp.recv, 1))
        print(*words)
        """) == "ECONNREFUSED"


def test_a_new_policy_holds_for_programs_that_know_no_proxy(api, box, origins):  # noqa: F811
    session = box()
    api.call("PUT", f"/session/{session}/egress/", policy(rule("denied.test")))
    assert bare(api, session, "curl -sS --noproxy '*' http://denied.test/n") == ("GET denied.test /n\n", 0)
    output, _ = bare(api, session, "curl -sS --noproxy '*' -w '%{http_code}' http://allowed.test/n")
    assert output.endswith("403")


def test_another_sessions_names_are_its_own(api, box):  # noqa: F811
    first, second = box(), box()
    theirs = api.output(second, "echo $HTTP_PROXY").strip().removeprefix("http://").split(":")[0]
    words = inside.python(api, first, f"""
        print(attempt(socket.create_connection, ('{theirs}', 53)))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            print(attempt(udp.sendto, b'x', ('{theirs}', 53)))
        """).split()
    assert words == ["ENETUNREACH", "ENETUNREACH"]


def test_a_restart_of_the_daemon_gives_it_back(build, debian, origins):
    made = daemons.Daemon(build, {})
    made.settings.update(origins.settings)
    made.settings.update(make_ca(made.build, made.directory))
    with made:
        session = made.api().create(debian, egress=STANDARD)
        address = made.api().output(session, "getent ahostsv4 allowed.test | head -n 1 | cut -d ' ' -f 1")
        made.stop()
        made.start()
        api = made.api()  # noqa: F811
        assert bare(api, session, "curl -sS --noproxy '*' http://allowed.test/again") == ("GET allowed.test /again\n", 0)
        assert bare(api, session, "curl -sS --noproxy '*' https://cred.test/again") == ("GET cred.test /again\n", 0)
        assert api.output(session, "getent ahostsv4 allowed.test | head -n 1 | cut -d ' ' -f 1") == address
        api.close(session, force=True)


def test_it_can_be_switched_off(build, debian, origins):
    made = daemons.Daemon(build, {"DAIV_SANDBOX_EGRESS_TRANSPARENT": "off"})
    made.settings.update(origins.settings)
    made.settings.update(make_ca(made.build, made.directory))
    with made:
        api = made.api()  # noqa: F811
        session = api.create(debian, egress=STANDARD)
        assert bare(api, session, "curl -sS --noproxy '*' http://allowed.test/")[1] == 6
        assert inside.python(api, session, "print(attempt(socket.create_connection, ('198.19.8.8', 80)))") == "ENETUNREACH"
        assert api.run_one(session, "curl -sS http://allowed.test/")[1] == 0
        api.close(session, force=True)


def test_a_port_that_it_needs_is_refused_for_the_proxy(build, tmp_path):
    made = daemons.Daemon(build, {"DAIV_SANDBOX_EGRESS_PROXY_PORT": "443", **make_ca(build, tmp_path)})
    try:
        with pytest.raises(RuntimeError, match="transparent mode has this port"):
            made.start()
    finally:
        made.remove()
