"""Egress through the proxy, from inside sandboxes: what is let through, what is refused, and where credentials go."""
import json
import pathlib
import signal
import subprocess
import threading
import time

import pytest

import daemon as daemons
import images
import inventory
import oci
from egress_fixtures import SECRET, STANDARD, curl, make_ca, policy, rule

REFUSED = "egress: destination not allowed"


@pytest.fixture(scope="module")
def egress_daemon(build, origins):
    made = daemons.Daemon(build, {})
    made.settings.update(origins.settings)
    made.settings.update(make_ca(made.build, made.directory))
    with made:
        yield made


@pytest.fixture
def api(egress_daemon, origins):
    origins.clear()
    return egress_daemon.api()


def settle(daemon, before, seconds=30):
    """What is left when the trash is empty: large writable layers take a slow disk a while."""
    deadline = time.monotonic() + seconds
    while (leaked := inventory.new_since(daemon, before)) and time.monotonic() < deadline:
        pass  # new_since() itself waits
    return leaked


@pytest.fixture
def box(api, egress_daemon, debian):
    """box(egress): a session on debian; after the test nothing of it may be left."""
    before = inventory.take(egress_daemon)
    made = []

    def make(egress=STANDARD, **more):
        made.append(api.create(debian, egress=egress, **more))
        return made[-1]

    yield make
    cleaner = daemons.Api(api.port)
    for session in made:
        cleaner.close(session, force=True)
    leaked = settle(egress_daemon, before)
    assert not leaked, f"left behind: {leaked}"
    for folder in ("netns", "egress"):
        assert list((egress_daemon.runtime / folder).iterdir()) == [], folder


def authorization(request):
    return [value for name, value in request["headers"] if name.lower() == "authorization"]


def test_an_allowed_host_answers_and_a_denied_one_hears_nothing(api, box, origins):
    session = box()
    assert curl(api, session, "http://allowed.test/x") == ("GET allowed.test /x\n", 0)
    output, code = curl(api, session, "-o", "/dev/stdout", "-w", "%{http_code}", "http://denied.test/x")
    assert code == 0 and output.startswith(REFUSED) and output.endswith("403")
    output, code = curl(api, session, "https://denied.test/x")
    assert code == 56 and "403" in output
    assert [one["host"] for one in origins.requests()] == ["allowed.test"]


def test_a_tunnelled_host_shows_its_own_certificate(api, box):
    session = box()
    output = api.output(session, "curl -skv https://tunnel.test/x 2>&1")
    assert "issuer: CN=origins of a test" in output and "GET tunnel.test /x" in output


def test_a_credential_arrives_and_the_sandbox_never_sees_it(api, box, origins):
    session = box(environment={"MINE": "1"})
    output, code = curl(api, session, "-H", "Authorization: mine", "-H", "AUTHORIZATION: too", "https://cred.test/x")
    assert (output, code) == ("GET cred.test /x\n", 0)
    assert authorization(origins.requests("cred.test")[0]) == [SECRET]
    secret = SECRET.split()[1]
    # The pattern is written so that the search does not find itself.
    hunt = f"{secret[0]}[{secret[1]}]{secret[2:]}"
    found = api.output(session, f"env | grep -c {hunt}; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | grep -ac {hunt};"
                                f"grep -rlsI --exclude-dir=proc --exclude-dir=sys {hunt} / | wc -l; true")
    assert found.split() == ["0", "0", "0"]


def test_the_ca_key_is_nowhere_and_the_certificate_is_where_programs_look(api, box, egress_daemon):
    session = box()
    certificate = pathlib.Path(egress_daemon.settings["DAIV_SANDBOX_EGRESS_CA_CERT_FILE"]).read_text()
    assert api.output(session, "cat /usr/local/share/ca-certificates/daiv-egress.crt").strip() == certificate.strip()
    assert api.output(session, "stat -c '%U %a' /usr/local/share/ca-certificates/daiv-egress.crt") == "root 644\n"
    assert api.output(session, "test -L /etc/ssl/certs/$(ls -l /etc/ssl/certs | sed -n 's/.* \\([0-9a-f]*\\.[0-9]*\\) -> daiv-egress.pem/\\1/p') && echo link") == "link\n"
    assert api.output(session, "(grep -rls 'PRIVATE KEY' /etc/ssl /usr/local /run; true) | wc -l") == "0\n"
    assert int(api.output(session, "grep -c 'BEGIN CERTIFICATE' /etc/ssl/certs/ca-certificates.crt")) > 10


def test_the_environment_is_as_documented(api, box):
    session = box(environment={"HTTP_PROXY": "http://mine", "no_proxy": "db", "KEPT": "1"})
    env = dict(line.split("=", 1) for line in api.output(session, "env").splitlines() if "=" in line)
    proxy = env["HTTP_PROXY"]
    assert proxy.startswith("http://100.1") and proxy.endswith(":8080")
    assert {env[name] for name in ("HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY")} == {proxy}
    assert env["SSL_CERT_FILE"] == env["NODE_EXTRA_CA_CERTS"] == "/etc/ssl/certs/ca-certificates.crt"
    assert (env["no_proxy"], env["KEPT"]) == ("db", "1") and "NO_PROXY" not in env


def test_python_trusts_the_proxy_with_its_default_context(api, box, origins):
    session = box()
    code = "import urllib.request; print(urllib.request.urlopen('https://cred.test/p').read().decode(), end='')"
    assert api.output(session, f'python3 -c "{code}"') == "GET cred.test /p\n"
    assert authorization(origins.requests("cred.test")[0]) == [SECRET]


def test_loopback_servers_of_the_sandbox_are_reached_directly(api, box):
    session = box()
    output = api.output(session, "cd /workspace && echo here > f && (python3 -m http.server 8765 >/dev/null 2>&1 & echo $! > /tmp/pid);"
                                 "for i in $(seq 50); do curl -s http://127.0.0.1:8765/f && break; sleep 0.1; done;"
                                 "curl -s http://localhost:8765/f; kill $(cat /tmp/pid)")
    assert output == "here\nhere\n"


@pytest.mark.parametrize("method, code", [("GET", "200"), ("POST", "403"), ("DELETE", "403")])
def test_methods_are_limited_inside_tls(api, box, origins, method, code):
    session = box()
    assert curl(api, session, "-o", "/dev/null", "-w", "%{http_code}", "-X", method, "https://limited.test/") == (code, 0)
    assert [one["method"] for one in origins.requests("limited.test")] == (["GET"] if code == "200" else [])


SPOOFS = {
    "denied host, spoofed Host": ["-H", "Host: cred.test", "http://denied.test/"],
    "address, spoofed Host": ["-H", "Host: cred.test", "http://{address}/"],
    "port and upper case": ["-H", "Host: CRED.test:80", "http://denied.test/"],
    "trailing dot": ["-H", "Host: cred.test.", "http://denied.test/"],
    "allowed host, Host of another": ["-H", "Host: cred.test", "http://allowed.test/"],
    "intercepted, Host of another": ["-H", "Host: cred.test", "https://limited.test/"],
    "denied by its trailing dot": ["http://denied.test./"],
}


@pytest.mark.parametrize("name", SPOOFS)
def test_a_spoofed_host_gets_no_credential(api, box, origins, name):
    session = box()
    words = [word.format(address=origins.address) for word in SPOOFS[name]]
    output, _ = curl(api, session, "-k", "-o", "/dev/null", "-w", "%{http_code}", *words)
    assert output in ("400", "403", "421")
    assert origins.requests() == []


def test_two_host_fields_are_refused(api, box, origins):
    session = box()
    program = """
import os, socket, urllib.parse
proxy = urllib.parse.urlparse(os.environ['HTTP_PROXY'])
s = socket.create_connection((proxy.hostname, proxy.port), 10)
s.sendall(b'GET http://allowed.test/ HTTP/1.1\\r\\nHost: allowed.test\\r\\nHost: cred.test\\r\\n\\r\\n')
print(s.recv(4096).split(b' ')[1].decode())
"""
    assert api.output(session, f"python3 - <<'END'\n{program}\nEND") == "400\n"
    assert origins.requests() == []


def test_a_connect_to_one_host_with_the_host_of_another_gets_nothing(api, box, origins):
    session = box(policy(rule("limited.test", ["GET"]), rule("cred.test", inject="token"), intercept="all"))
    program = """
import os, socket, ssl, urllib.parse
proxy = urllib.parse.urlparse(os.environ['HTTP_PROXY'])
def ask(connect, sni, host):
    try:
        s = socket.create_connection((proxy.hostname, proxy.port), 10)
        s.sendall(f'CONNECT {connect}:443 HTTP/1.1\\r\\nHost: {connect}:443\\r\\n\\r\\n'.encode())
        if b' 200 ' not in s.recv(4096): return 'refused'
        context = ssl._create_unverified_context()
        context.check_hostname = False
        t = context.wrap_socket(s, server_hostname=sni)
        t.sendall(f'GET / HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n'.encode())
        return t.recv(4096).split(b' ')[1].decode()
    except (OSError, IndexError):
        return 'cut'
print(ask('limited.test', 'limited.test', 'cred.test'), ask('limited.test', 'cred.test', 'cred.test'), ask('limited.test', None, 'cred.test'))
"""
    answers = api.output(session, f"python3 - <<'END'\n{program}\nEND").split()
    assert all(answer in ("403", "421", "refused", "cut") for answer in answers), answers
    assert origins.requests("cred.test") == [] and not any(authorization(one) for one in origins.requests())


KEEP_ALIVE = """
import http.client, os, sys, time, urllib.parse
proxy = urllib.parse.urlparse(os.environ['HTTP_PROXY'])
connection = http.client.HTTPSConnection(proxy.hostname, proxy.port)
connection.set_tunnel('cred.test')
connection.connect()
socket = connection.sock
end = time.monotonic() + 20
while time.monotonic() < end:
    connection.request('GET', '/')
    answer = connection.getresponse()
    answer.read()
    assert connection.sock is socket
    if answer.status == 403:
        print('refused on the same connection')
        sys.exit(0)
    time.sleep(0.02)
sys.exit(1)
"""


def test_a_new_policy_holds_on_a_live_connection(api, box, origins, egress_daemon):
    """The command runs meanwhile: a PUT waits for nothing."""
    session = box()
    results = []
    command = threading.Thread(target=lambda: results.append(
        daemons.Api(api.port).run_one(session, f"python3 - <<'END'\n{KEEP_ALIVE}\nEND")))
    command.start()
    assert origins.wait_for(1), "the command does not get through"
    put = lambda block: api.raw("PUT", f"/session/{session}/egress/", json.dumps(block), {"Content-Type": "application/json"})[0]
    assert put(policy(rule("cred.test", inject="token"), secret="Bearer second")) == 204
    seen = len(origins.requests())
    assert authorization(origins.wait_for(seen + 2)[-1]) == ["Bearer second"]
    assert put(policy(rule("allowed.test"))) == 204
    command.join()
    assert results == [("refused on the same connection\n", 0)]


def test_the_policy_survives_a_warm_close(api, box, origins):
    session = box()
    api.close(session)
    status, _ = api.raw("PUT", f"/session/{session}/egress/", json.dumps(policy(rule("denied.test"))), {"Content-Type": "application/json"})
    assert status == 204
    assert curl(api, session, "http://denied.test/now") == ("GET denied.test /now\n", 0)
    assert REFUSED in curl(api, session, "http://allowed.test/")[0]
    assert api.output(session, "grep -c 'begin daiv-sandbox' /etc/ssl/certs/ca-certificates.crt") == "1\n"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["terminated", "killed"])
def test_a_restart_of_the_daemon_gives_the_proxy_back(own_daemon, debian, origins, how, tmp_path, build):
    origins.clear()
    daemon = own_daemon(**origins.settings, **make_ca(build, tmp_path))
    session = daemon.api().create(debian, egress=STANDARD)
    daemon.stop(how)
    daemon.start()
    api = daemon.api()
    assert curl(api, session, "https://cred.test/again") == ("GET cred.test /again\n", 0)
    assert authorization(origins.requests("cred.test")[0]) == [SECRET]
    assert REFUSED in curl(api, session, "http://denied.test/")[0]
    api.close(session, force=True)
    assert list((daemon.runtime / "netns").iterdir()) == []


def test_git_clones_and_pushes_with_an_injected_credential(api, box, origins):
    session = box(policy(rule("git.test", inject="token")))
    output, code = api.run_one(session, """
        set -e; cd /workspace; git clone -q https://git.test/git/repo.git clone; cd clone; cat file
        git config user.name t; git config user.email t@t.test
        head -c 3000000 /dev/urandom > big; git add big; git commit -q -m second; git push -q origin HEAD:main; git ls-remote origin main | wc -l""")
    assert (output, code) == ("content\n1\n", 0)
    log = subprocess.run(["git", "-C", origins.directory / "git/repo.git", "-c", "safe.directory=*", "log", "--format=%s", "main"],
                         stdout=subprocess.PIPE, text=True, check=True).stdout
    assert log == "second\nfirst\n"
    assert all(authorization(one) == [SECRET] for one in origins.requests("git.test"))


def test_events_arrive_as_they_are_sent(api, box):
    session = box()
    program = """
import urllib.request
with urllib.request.urlopen('https://cred.test/events') as answer:
    while event := answer.read(2):
        print(event.decode().strip())
        urllib.request.urlopen('https://cred.test/next').read()
"""
    assert api.output(session, f"python3 - <<'END'\n{program}\nEND") == "0\n1\n2\n"


@pytest.mark.parametrize("path, target", [("etc/ssl/certs", "/nowhere"), ("etc/ssl/certs", "certs"), ("usr/local", "/nowhere"),
                                          ("etc/ssl", "/proc/1/fd")])
def test_an_image_that_can_not_take_the_ca_is_refused_with_the_reason(api, push, egress_daemon, path, target):
    folders = [oci.entry(folder) for folder in ("etc/ssl",) if path.startswith(folder + "/")]
    image = push(images.busybox(None, oci.Layer.of(*folders, oci.symlink(path, target))), "odd-ca")
    with pytest.raises(daemons.Refused) as refused:
        api.create(image, egress=STANDARD)
    assert refused.value.status == 400 and refused.value.detail.startswith("agent: the image can't take the egress CA: ")
    assert list((egress_daemon.runtime / "egress").iterdir()) == []
    api.close(api.create(image), force=True)


def test_an_unknown_upstream_is_a_502(api, box):
    session = box(policy(rule("*.nowhere.invalid")))
    output, code = curl(api, session, "-o", "/dev/null", "-w", "%{http_code}", "http://a.nowhere.invalid/")
    assert (output, code) == ("502", 0)


@pytest.mark.parametrize("target", ["127.0.0.1:{port}", "169.254.169.254", "{host}:22", "100.124.0.1:8080", "[::1]:{port}", "localhost:{port}"])
def test_a_policy_that_allows_all_does_not_open_the_host(api, box, origins, egress_daemon, target):
    session = box(policy(default="allow"))
    url = "http://" + target.format(port=egress_daemon.port, host=origins.host) + "/-/health/"
    output, code = curl(api, session, "--noproxy", "", "-o", "/dev/null", "-w", "%{http_code}", url)
    assert code == 0 and output in ("403", "502")


def test_refusals_by_the_api(api, box, busybox, origins):
    plain = api.create(busybox)
    put = lambda session, block: api.raw("PUT", f"/session/{session}/egress/", json.dumps(block), {"Content-Type": "application/json"})
    try:
        assert put(plain, STANDARD)[0] == 409
        assert put("00000000-0000-4000-8000-000000000000", STANDARD)[0] == 404
        bad = {"policy": {"rules": [{"host": "a b", "inject": "x"}]}, "secrets": {"x": {"header": "A", "value": "hush-hush"}}}
        for status, body in (put(box(), bad), api.raw("POST", "/session/", json.dumps({"base_image": busybox, "egress": bad}),
                                                      {"Content-Type": "application/json"})):
            assert status == 422 and b"hush-hush" not in body
    finally:
        api.close(plain, force=True)


def test_an_image_without_any_certificates_gets_a_bundle(api, egress_daemon, busybox):
    session = api.create(busybox, egress=STANDARD)
    try:
        assert int(api.output(session, "grep -c 'BEGIN CERTIFICATE' /etc/ssl/certs/ca-certificates.crt")) >= 1
        assert api.output(session, "wget -qO- http://allowed.test/x") == "GET allowed.test /x\n"
    finally:
        api.close(session, force=True)


def test_the_log_names_decisions_and_no_secret(api, box, egress_daemon):
    session = box()
    curl(api, session, "https://cred.test/logged")
    curl(api, session, "http://denied.test/logged")
    lines = [line for line in egress_daemon.log_text().splitlines() if session in line and "event=egress " in line]
    assert any("decision=allowed" in line and 'host="cred.test"' in line and "injected=true" in line for line in lines)
    assert any("decision=denied" in line and 'host="denied.test"' in line for line in lines)
    assert "s3cr3t" not in egress_daemon.log_text()
    metrics = api.raw("GET", "/-/metrics")[1].decode()
    assert "daiv_sandbox_egress_requests_denied_total" in metrics and "s3cr3t" not in metrics


def test_without_a_ca_egress_is_refused(daemon, busybox):
    with pytest.raises(daemons.Refused) as refused:
        daemon.api().create(busybox, egress=STANDARD)
    assert refused.value.status == 400


def test_the_log_of_a_session_can_be_followed_until_it_is_removed(api, box, egress_daemon):
    session, other = box(), box()
    curl(api, session, "http://allowed.test/first")
    command = [egress_daemon.program, "egress", "log", session]
    follower = subprocess.Popen([*command, "--json"], env=egress_daemon.environment, stdout=subprocess.PIPE, text=True)
    try:
        first = json.loads(follower.stdout.readline())
        assert (first["session"], first["host"], first["port"], first["method"]) == (session, "allowed.test", 80, "GET")
        assert (first["decision"], first["rule"], first["status"]) == ("allowed", "allowed.test", 200)
        assert first["bytes_down"] > 0 and first["duration_ms"] > 0
        curl(api, other, "http://denied.test/not-this-session")
        curl(api, session, "http://denied.test/second")
        second = json.loads(follower.stdout.readline())
        assert (second["session"], second["host"], second["decision"]) == (session, "denied.test", "denied") and second["reason"]
        kept = egress_daemon.cli("egress", "log", session, "--no-follow")
        assert [f'host="{host}"' in line for host, line in zip(("allowed.test", "denied.test"), kept.stdout.splitlines(), strict=True)] \
            == [True, True]
        api.close(session, force=True)
        assert (follower.stdout.read(), follower.wait(60)) == ("", 0)
    finally:
        follower.kill()
        follower.wait()
    gone = egress_daemon.cli("egress", "log", session)
    assert (gone.returncode, gone.stdout) == (3, "")


def test_a_follower_that_goes_and_a_daemon_that_stops_wait_for_nobody(build, origins, tmp_path, busybox):
    with daemons.Daemon(build, make_ca(build, tmp_path)) as own:
        session = own.api().create(busybox, egress=STANDARD)
        command = [own.program, "egress", "log", session]
        # One session's log has two readers here; the first goes by itself, the other with the daemon.
        for leaves in (True, False):
            follower = subprocess.Popen(command, env=own.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            own.api().run_one(session, "wget -q -O - http://denied.test/ ; true")
            assert "denied.test" in follower.stdout.readline()
            if leaves:
                follower.kill()
                follower.communicate()
        own.api().close(session, force=False)
        own.stop()
        follower.communicate(timeout=60)
        assert follower.returncode in (0, 1, 4)
