"""The command line, a client of the daemon's local socket."""
import json
import tempfile

import images
import oci
from conftest import IMAGE_CACHE
from oci import Layer, entry


def special(text):
    return images.busybox(None, Layer.of(entry("opt/text", text)))


def test_pull_lists_and_prunes(own_daemon, push):
    daemon = own_daemon()
    reference = push(special("pulled"), "cli-pull")
    pulled = daemon.cli("pull", reference)
    assert pulled.returncode == 0, pulled.stderr
    assert "\r" not in pulled.stdout, "plain lines where it is no terminal"
    assert reference in daemon.cli("images").stdout
    assert any(reference in json.dumps(image) for image in json.loads(daemon.cli("images", "--json").stdout))
    assert daemon.cli("prune", "--all").returncode == 0 or daemon.cli("prune").returncode == 0


def test_pull_of_nothing_fails_with_a_reason(daemon, registry):
    done = daemon.cli("pull", f"{registry.address}/no/such:image")
    assert done.returncode != 0 and "no/such" in done.stderr


def test_load_of_an_archive_a_layout_and_standard_input(daemon, api, start, tmp_path):
    archive, layout = tmp_path / "archive.tar", tmp_path / "layout"
    oci.save_docker_archive(special("archive"), archive, "loaded/archive:1")
    oci.save_oci_layout(special("layout"), layout, "loaded/layout:1")
    for source, name in ((archive, "archive"), (layout, "layout")):
        done = daemon.cli("load", str(source))
        assert done.returncode == 0, done.stderr
        assert api.output(start(f"loaded/{name}:1"), "cat /opt/text") == name
    oci.save_docker_archive(special("stdin"), archive, "loaded/stdin:1")
    done = daemon.cli("load", "-", input=archive.read_bytes())
    assert done.returncode == 0, done.stderr
    assert api.output(start("loaded/stdin:1"), "cat /opt/text") == "stdin"


def test_load_of_garbage_fails(daemon):
    with tempfile.NamedTemporaryFile() as garbage:
        garbage.write(b"garbage" * 1000)
        garbage.flush()
        done = daemon.cli("load", garbage.name)
    assert done.returncode != 0 and done.stderr


def test_ps_exec_and_rm(daemon, no_leaks, api, busybox):
    session = api.create(busybox)
    assert session in daemon.cli("ps").stdout
    done = daemon.cli("exec", session, "echo", "hi")
    assert (done.returncode, done.stdout) == (0, "hi\n"), done.stderr
    assert daemon.cli("exec", session, "sh", "-c", "exit 7").returncode == 7
    assert daemon.cli("rm", session).returncode == 0
    assert session not in daemon.cli("ps").stdout
    assert daemon.cli("rm", session).returncode != 0 or api.status(session) == 404


def test_version_and_doctor(daemon):
    assert daemon.cli("version").stdout.strip()
    doctor = daemon.cli("doctor", "--json")
    assert json.loads(doctor.stdout)


def test_an_image_by_the_cache_is_what_was_built(daemon, api, start, debian):
    assert images.get("debian", IMAGE_CACHE).config["Env"]
    session = start(debian)
    assert "Debian" in api.output(session, "cat /etc/os-release")
    for program in ("bash", "git", "python3", "curl", "grep", "find"):
        assert api.output(session, f"command -v {program}")
    assert api.run_one(session, "getent passwd 1000")[1] != 0
