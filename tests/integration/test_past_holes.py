"""One test for each past hole of others, tried from inside or through an image.

Each shows two things: that the attack fails here, and that it is a real one. For the latter the same attack is run
against a build with -Dattack_switches=true whose DAIV_SANDBOX_ATTACK_WITHOUT names the one defence that is off
(os/attack_switches.hpp). Where a second defence of the real agent stands behind that one (CVE-2019-5736,
CVE-2024-21626) it is shown in tests/unit/runtime/attack_test.cpp, on a PID 1 without it; where two defences of the
unpacker stand (CVE-2021-29136), each alone is shown to stop the attack, and the attack to succeed without both.
"""
import http.server
import json
import pathlib
import shutil
import subprocess
import tempfile
import threading

import pytest

import daemon as daemons
import images
import oci
from daemon import Refused
from fake_registry import FakeRegistry, basic
from inside import python
from oci import Layer, entry, symlink


@pytest.fixture(scope="session")
def attack_build(request, build):
    path = request.config.getoption("--attack-build")
    if not path:
        pytest.skip("no build with -Dattack_switches=true was given")
    return pathlib.Path(path).resolve()


@pytest.fixture
def against(build, request):
    """against(defence=None, **settings): the API of a daemon of its own; with DEFENCE named, one that lacks it."""
    made = []

    def make(defence=None, **settings):
        tree = request.getfixturevalue("attack_build") if defence else build
        made.append(daemons.Daemon(tree, {**settings, **({"DAIV_SANDBOX_ATTACK_WITHOUT": defence} if defence else {})}))
        return made[-1].start().api()

    yield make
    for one in made:
        one.remove()


ROOT_INSIDE = {"DAIV_SANDBOX_RUN_UID": "0", "DAIV_SANDBOX_RUN_GID": "0"}


def try_session(api, reference, command):
    """(output, exit code) of COMMAND in a session of the image, or the status that refused the session."""
    try:
        session = api.create(reference)
    except Refused as refused:
        return refused.status
    try:
        return api.run_one(session, command)
    finally:
        api.close(session, force=True)


# --- CVE-2019-5736: the runtime's own program is overwritten through /proc/<pid>/exe -----------------------------------

OPEN_AGENT = """
for mode in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_PATH):
    print(attempt(lambda: os.open('/proc/1/exe', mode)))
"""


def test_cve_2019_5736_the_agents_program_cannot_be_opened(against, debian):
    api = against(**ROOT_INSIDE)
    session = api.create(debian)
    assert set(python(api, session, OPEN_AGENT).split()) == {"EACCES"}
    api.close(session, force=True)


def test_cve_2019_5736_a_shell_that_is_the_agent_itself(against, push):
    """The interpreter of the image's shell is whatever executes it: the agent runs once more, and has nothing to serve."""
    kept = [item for item in images.busybox_entries() if item[0].name not in ("bin/sh", "bin/ash")]
    image = oci.Image([Layer.of(*kept, entry("bin/sh", "#!/proc/self/exe\n", mode=0o755))], {"Env": images.ENVIRONMENT})
    api = against(**ROOT_INSIDE)
    session = api.create(push(image, "shell-is-exe"))
    assert api.run_one(session, "true")[1] != 0
    assert api.fs(session, "ls", path="/workspace")["error"] is None, "the agent that serves is as it was"
    api.close(session, force=True)


# --- CVE-2019-14271: a helper that enters the container loads the container's libraries --------------------------------

@pytest.fixture(scope="session")
def marking_library(tmp_path_factory):
    """A shared library that writes down the name and the user of whoever loads it."""
    folder = tmp_path_factory.mktemp("library")
    source = folder / "mark.c"
    source.write_text("#include <stdio.h>\n#include <errno.h>\n#include <unistd.h>\n"
                      "__attribute__((constructor)) static void mark(void) {\n"
                      "  FILE* f = fopen(\"/workspace/tmp/loaded\", \"a\");\n"
                      "  if (f) { fprintf(f, \"%s %d\\n\", program_invocation_short_name, getuid()); fclose(f); }\n}\n")
    subprocess.run(["gcc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", folder / "mark.so", source], check=True)
    return (folder / "mark.so").read_bytes()


@pytest.mark.parametrize("defence", [None, "static_agent"])
def test_cve_2019_14271_the_agent_loads_no_library_of_the_image(against, push, marking_library, defence):
    image = images.get("debian", pathlib.Path(__file__).parents[2] / "build/images")
    library = "/lib/x86_64-linux-gnu/mark.so"
    names = [f"usr/lib/x86_64-linux-gnu/libnss_{name}.so.2" for name in ("files", "dns", "compat")]
    image.layers.append(Layer.of(entry("etc/ld.so.preload", library + "\n"), entry("usr" + library, marking_library, mode=0o755),
                                 *(entry(name, marking_library, mode=0o755) for name in names)))
    api = against(defence)
    session = api.create(push(image, "preload"))
    assert api.seed(session, repo=oci.tar(entry("a", "x")))[0] == 204
    for operation, body in (("ls", {"path": "/workspace"}), ("read", {"path": "/workspace/repo/a"}),
                            ("grep", {"path": "/workspace", "pattern": "x"}), ("glob", {"path": "/workspace", "pattern": "**"})):
        assert api.fs(session, operation, **body)["error"] is None
    api.write(session, "/workspace/repo/b", "y")
    loaded = api.output(session, "cat /workspace/tmp/loaded").splitlines()
    api.close(session, force=True)
    if defence is None:  # this first command's own shell and programs, and nobody else
        assert {line.split()[0] for line in loaded} in ({"bash", "cat"}, {"bash", "cat", "sh"})
    else:  # PID 1, as root of the session, before anything of the image was asked for
        assert loaded[0] == "agent 0"


# --- CVE-2021-30465, CVE-2024-1753: a target of the runtime's own mounts leads through the image's links out -----------

@pytest.fixture
def outside():
    """A directory of the host that anybody may walk to and write in."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="daiv-outside-", dir="/var/tmp"))
    path.chmod(0o777)
    yield path
    shutil.rmtree(path)


def secret_in(directory):
    path = directory / "secret"
    path.write_text("secret")
    path.chmod(0o666)
    return path


def links_out(target, *places):
    """An image in which PLACES, that the runtime mounts on or writes to, are links out of the root."""
    kept = [item for item in images.busybox_entries() if item[0].name.split("/")[0] not in places]
    return oci.Image([Layer.of(*kept, *(symlink(place, str(target)) for place in places))], {"Env": images.ENVIRONMENT})


def test_cve_2021_30465_no_target_follows_the_images_links(against, push, outside):
    image = links_out(outside, "dev", "proc", "sys", "workspace", "etc", "tmp", "home")
    assert try_session(against(), push(image, "links-out"), "echo x > /workspace/repo/planted; echo ran") == ("ran\n", 0)
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("defence", [None, "rooted_targets"])
def test_cve_2021_30465_a_directory_of_ours_is_made_in_the_image(against, push, outside, defence):
    result = try_session(against(defence), push(links_out(outside, "workspace"), "workspace-out"), "true")
    assert (result == ("", 0) and list(outside.iterdir()) == []) if defence is None else (outside / "repo").is_dir()


@pytest.mark.parametrize("defence", [None, "rooted_sources"])
def test_cve_2024_1753_what_a_link_of_the_image_leads_to_is_not_shown(against, push, outside, defence):
    secret_in(outside)
    image = links_out(f"../../../../..{outside}", "workspace")
    output, code = try_session(against(defence), push(image, "workspace-shows"), "cat /workspace/secret")
    assert (output, code) == ("secret", 0) if defence else code != 0 and "secret" not in output.replace("/secret", "")


def test_cve_2024_1753_a_folder_of_the_image_that_is_a_link_to_the_root_shows_no_host(against, push):
    image = images.busybox({"Volumes": {"/data": {}}, "WorkingDir": "/data"},
                           Layer.of(symlink("data", "/"), symlink("workspace", "../../../../../../.."), symlink("mnt", "/proc/1/root")))
    output, code = try_session(against(), push(image, "link-to-root"), "ls /workspace/ /data/ /mnt/ 2>&1")
    host_only = {"boot", "lost+found", "srv", "media"} & {path.name for path in pathlib.Path("/").iterdir()}
    assert not host_only & set(output.split())


# --- CVE-2022-0492: a cgroup's release_agent runs a program on the host -------------------------------------------------

RELEASE_AGENT = """
results = []
def mount():
    for kind in (b'cgroup', b'cgroup2'):
        for options in (b'rdma', b'memory', b'none,name=x', b''):
            results.append(call(165, kind, b'/tmp/cg', kind, 0, options))
os.makedirs('/tmp/cg', exist_ok=True)
mount()
results.append('not ' + call(272, 0x10000000 | 0x02000000 | 0x00020000))  # namespaces of users, cgroups and mounts
mount()
print('mounted' if 'ok' in results else 'refused')
"""


@pytest.mark.parametrize("defence", [None, "system_call_filter"])
def test_cve_2022_0492_no_cgroup_can_be_mounted(against, debian, defence):
    api = against(defence)
    session = api.create(debian)
    result = python(api, session, RELEASE_AGENT)
    api.close(session, force=True)
    assert result == ("refused" if defence is None else "mounted")


# --- CVE-2024-21626: a descriptor of the host that was left open leads out ---------------------------------------------

LEAKED = """
found = []
for owner in ('self', '1'):
    for number in range(3, 64):
        base = f'/proc/{owner}/fd/{number}'
        try:
            target = os.readlink(base)
            if owner == 'self' and number == int(os.readlink('/proc/self/fd/3') == target) + 2: continue
            if os.path.isdir(base) and os.path.exists(base + '/../..') and not target.startswith('/proc'):
                found.append(f'{base} {target}')
        except OSError:
            pass
print(found or 'none')
"""


def test_cve_2024_21626_no_descriptor_of_the_host_is_left(api, session):
    assert python(api, session, LEAKED) == "none"


@pytest.mark.parametrize("number", range(3, 12))
def test_cve_2024_21626_a_working_directory_through_a_descriptor(api, start, push, number):
    session = start(push(images.busybox({"WorkingDir": f"/proc/self/fd/{number}/../../.."}), f"workdir-{number}"))
    assert api.run_one(session, "pwd") == ("/workspace/repo\n", 0)


# --- CVE-2025-31133, CVE-2025-52565, CVE-2025-52881: masks and nodes that the image redirects ---------------------------

def with_dev(**links):
    return images.busybox(None, Layer.of(*(symlink(f"dev/{name}", target) for name, target in links.items())))


@pytest.mark.parametrize("defence", [None, "host_devices"])
def test_cve_2025_31133_a_mask_is_never_the_images_dev_null(against, push, outside, defence):
    image = with_dev(null=str(secret_in(outside)), zero="/proc/sysrq-trigger", full="/etc/passwd")
    output, code = try_session(against(defence), push(image, "dev-null"), "cat /proc/interrupts; echo owned > /proc/interrupts")
    assert (output, (outside / "secret").read_text()) == (("", "secret") if defence is None else ("secret", "owned\n")), code


@pytest.mark.parametrize("defence", [None, "host_devices"])
def test_cve_2025_52565_a_node_is_never_the_images_link(against, push, outside, defence):
    image = with_dev(full=str(secret_in(outside)))
    output, _ = try_session(against(defence), push(image, "dev-full"), "head -c 6 /dev/full | tr '\\0' 0")
    assert output == ("000000" if defence is None else "secret")


def test_cve_2025_52565_dev_console_is_never_the_images_link(against, push):
    image = images.busybox(None, Layer.of(symlink("dev/console", "/proc/sys/kernel/core_pattern"), symlink("dev/ptmx", "/proc/sysrq-trigger"),
                                          entry("dev/pts"), symlink("dev/pts/0", "/proc/sys/kernel/core_pattern")))
    output, code = try_session(against(**ROOT_INSIDE), push(image, "console"),
                               "[ -L /dev/console ] && readlink /dev/console; [ -L /dev/pts/0 ] && readlink /dev/pts/0; "
                               "grep -e core_pattern -e sysrq /proc/mounts; echo end")
    assert "core_pattern" not in output and output.endswith("end\n")


def test_cve_2025_52881_proc_is_the_kernels(against, push):
    """A tree of the image in the place of /proc, whose files redirect the runtime's own writes."""
    kept = [item for item in images.busybox_entries() if item[0].name != "proc"]
    fake = [entry("proc"), entry("proc/self"), entry("proc/self/attr"), symlink("proc/self/attr/exec", "/proc/sysrq-trigger"),
            symlink("proc/self/uid_map", "/proc/sys/kernel/core_pattern"), symlink("proc/sys", "/etc"), entry("proc/fake", "x")]
    image = oci.Image([Layer.of(*kept, *fake)], {"Env": images.ENVIRONMENT})
    result = try_session(against(), push(image, "fake-proc"), "[ -e /proc/fake ] && echo fake; grep ' /proc proc' /proc/mounts >/dev/null && echo real")
    assert result == ("real\n", 0)


@pytest.mark.parametrize("defence", [None, "verified_proc"])
def test_cve_2025_52881_what_the_agent_writes_to_proc_goes_to_the_kernel(against, push, outside, defence):
    """/proc is a link to a tree of the image, that lies on the host too: the procfs is mounted there, and not seen inside."""
    tree = str(outside).lstrip("/")
    parents = [str(parent) for parent in reversed(pathlib.PurePath(tree).parents)][1:]
    kept = [item for item in images.busybox_entries() if item[0].name not in ("proc", *parents)]
    fake = [entry(name) for name in (*parents, tree, f"{tree}/self")]
    image = oci.Image([Layer.of(*kept, *fake, entry(f"{tree}/self/oom_score_adj", "image's\n", mode=0o666), symlink("proc", str(outside)))],
                      {"Env": images.ENVIRONMENT})
    output, code = try_session(against(defence), push(image, "proc-elsewhere"), f"cat {outside}/self/oom_score_adj")
    assert output.startswith("image's" if defence is None else "500"), (output, code)


# --- CVE-2020-15157: credentials go to a host that the image names -----------------------------------------------------

class Attacker:
    """A web server that remembers the headers of whoever comes, and serves one blob, to strangers only without CHALLENGE."""

    def __init__(self, blob, challenge=None):
        headers = self.headers = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                headers.append(dict(self.headers))
                refused = challenge and "Authorization" not in self.headers
                self.send_response(401 if refused else 200)
                if refused:
                    self.send_header("WWW-Authenticate", challenge)
                self.send_header("Content-Length", "0" if refused else str(len(blob)))
                self.end_headers()
                self.wfile.write(b"" if refused else blob)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        # Another host name than the registry's, so that it is another host to a client.
        self.url = f"http://localhost:{self.server.server_address[1]}/blob"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def credentials(self):
        return [headers.get("Authorization") for headers in self.headers]


def token_challenge(registry):
    value = f'Bearer realm="http://{registry.address}/token",service="fake",scope="repository:app:pull"'
    return lambda handler: None if handler.headers.get("Authorization") == "Bearer secret" else value


def redirect(registry, blob, attacker, ask=lambda handler: None):
    """Sends whoever may have BLOB to the attacker; ASK says who may, as a registry's `challenge` does."""

    def challenge(handler):
        asked = ask(handler)
        if asked is None and handler.path.endswith(oci.digest(blob)):
            handler.answer(307, b"", Location=attacker.url)
            raise ConnectionAbortedError  # answered already
        return asked

    registry.challenge = challenge
    registry.server.handle_error = lambda *_: None


def test_cve_2020_15157_no_foreign_url_is_followed(api):
    """What a manifest names as the place of a layer is not read at all: nobody comes there, with a credential or without."""
    image = images.busybox(None, Layer.of(entry("opt/foreign", "x")))
    layer = image.layers[-1]
    with FakeRegistry(image, token=lambda _: (200, {"token": "secret"})) as registry, Attacker(layer.stored) as attacker:
        manifest = json.loads(registry.manifest)
        manifest["layers"][-1]["mediaType"] = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"
        manifest["layers"][-1]["urls"] = [attacker.url]
        registry.manifest = json.dumps(manifest).encode()
        del registry.blobs[oci.digest(layer.stored)]
        registry.challenge = token_challenge(registry)
        assert try_session(api, registry.reference, "true") == 400
        assert attacker.headers == []


@pytest.mark.parametrize("defence", [None, "bound_credentials"])
def test_cve_2020_15157_no_token_follows_to_another_host(against, defence):
    """The vehicle works: the redirect is followed, only without the token."""
    image = images.busybox(None, Layer.of(entry("opt"), entry("opt/redirected", "yes")))
    blob = image.layers[-1].stored
    with FakeRegistry(image, token=lambda _: (200, {"token": "secret"})) as registry, Attacker(blob) as attacker:
        redirect(registry, blob, attacker, token_challenge(registry))
        assert try_session(against(defence), registry.reference, "cat /opt/redirected") == ("yes", 0)
        assert attacker.credentials() == [None if defence is None else "Bearer secret"]


@pytest.mark.parametrize("defence", [None, "bound_credentials"])
def test_cve_2020_15157_no_password_for_another_hosts_challenge(against, tmp_path, defence):
    """The other host asks for a password, and the registry's is at hand."""
    image = images.busybox(None, Layer.of(entry("opt"), entry("opt/challenged", "yes")))
    blob = image.layers[-1].stored
    with FakeRegistry(image) as registry, Attacker(blob, 'Basic realm="x"') as attacker:
        redirect(registry, blob, attacker)
        auth = tmp_path / "auth.json"
        auth.write_text(json.dumps({"auths": {registry.address: {"auth": basic("ann", "pass").split()[1]}}}))
        api = against(defence, DAIV_SANDBOX_REGISTRY_AUTH_FILE=str(auth))
        result = try_session(api, registry.reference, "cat /opt/challenged")
        assert result == (400 if defence is None else ("yes", 0))
        assert attacker.credentials() == ([None] if defence is None else [None, basic("ann", "pass")])


# --- CVE-2021-29136: a layer whose root entry is a link ------------------------------------------------------------------

def root_link(target, root="."):
    """An image whose last layer has a link for its root, and a file to be written after it."""
    return images.busybox(None, Layer.from_tar(oci.tar(symlink(root, str(target)), entry("planted", "x"))))


@pytest.mark.parametrize("root", [".", "./", "/", ""])
def test_cve_2021_29136_a_root_entry_that_is_a_link_replaces_nothing(api, push, outside, root):
    assert try_session(api, push(root_link(outside, root), "root-link"), "true") == 400
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("defence", ["root_entry", "unpacker_root"])
def test_cve_2021_29136_either_defence_is_enough(against, push, outside, defence):
    assert try_session(against(defence), push(root_link(outside), "root-link"), "true") in (400, 500)
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("defence", ["root_entry,unpacker_root"])
def test_cve_2021_29136_without_both_a_layer_writes_on_the_host(against, push, outside, defence):
    try_session(against(defence), push(root_link(outside), "root-link"), "true")
    assert [path.name for path in outside.iterdir()] == ["planted"]


# --- CVE-2021-41190: one document that is a manifest and an index -------------------------------------------------------

@pytest.mark.parametrize("change", [
    {"manifests": []}, {"mediaType": oci.OCI_INDEX}, {"manifests": [{"mediaType": oci.OCI_MANIFEST, "digest": "sha256:" + "0" * 64, "size": 1}]}],
    ids=["both lists", "other type", "both filled"])
def test_cve_2021_41190_an_ambiguous_manifest_is_refused(api, change):
    image = images.busybox(None, Layer.of(entry("opt/ambiguous", "x")))
    with FakeRegistry(image) as registry:
        assert try_session(api, registry.reference, "cat /opt/ambiguous") == ("x", 0), "unambiguous, it is served"
        registry.manifest = json.dumps({**json.loads(registry.manifest), **change}).encode()
        with pytest.raises(Refused) as refused:
            api.create(f"{registry.address}/app:ambiguous")
        assert refused.value.status == 400


@pytest.mark.parametrize("defence", [None, "single_meaning"])
def test_cve_2021_41190_one_digest_is_not_two_images(against, defence):
    """The image that was looked at is not the one that runs: what the transport says of the same bytes decides."""
    shown, hidden = (images.busybox(None, Layer.of(entry("opt/which", which))) for which in ("shown", "hidden"))
    with FakeRegistry(shown) as registry:
        registry.blobs.update({oci.digest(blob): blob for blob in hidden.blobs()})
        inner = hidden.manifest_bytes()
        registry.manifests[oci.digest(inner)] = inner
        entries = [{"mediaType": oci.OCI_MANIFEST, "digest": oci.digest(inner), "size": len(inner)}]
        document = {**json.loads(registry.manifest), "manifests": entries}
        del document["mediaType"]
        registry.manifest = json.dumps(document).encode()
        seen = []
        for registry.manifest_type in (oci.OCI_MANIFEST, oci.OCI_INDEX):
            api = against(defence)  # one that does not have the image yet
            seen.append(try_session(api, f"{registry.address}/app@{oci.digest(registry.manifest)}", "cat /opt/which"))
        assert seen == ([400, 400] if defence is None else [("shown", 0), ("hidden", 0)])
