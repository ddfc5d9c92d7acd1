"""Inputs that broke others: image configurations. Sessions start, commands run as RUN_UID, no host path is touched."""
import pathlib
import time

import pytest

import images
import oci
from daemon import Refused
from oci import Layer, entry, symlink


def special(config=None, *entries):
    return images.busybox(config, *([Layer.of(*entries)] if entries else []))


@pytest.fixture
def in_image(api, start, push, request):
    def run(image, command, **more):
        return api.run_one(start(push(image, f"config-{abs(hash(request.node.name))}"), **more), command)
    return run


@pytest.mark.parametrize("user", ["65532", "1000:1000", "nobody:daemon", "ghost", "4294967295", "-1", "1234", "0", "root"])
def test_commands_run_as_the_configured_uid_whatever_the_image_says(in_image, user):
    image = special({"User": user}, entry("etc/passwd", "root:x:0:0::/root:/bin/sh\n1234:x:0:0::/:/bin/sh\n"))
    assert in_image(image, "id -u; id -g") == ("1000\n1000\n", 0)


PASSWD = {
    "missing": [entry("etc/.wh.passwd", "")],
    "link to the host": [symlink("etc/passwd", "/../../../../etc/passwd")],
    "fifo": [entry("etc/passwd", kind=b"6", mode=0o644)],
    "folder": [entry("etc/passwd")],
    "endless": [symlink("etc/passwd", "/dev/zero")],
}


@pytest.mark.parametrize("kind", PASSWD)
def test_a_strange_passwd_neither_blocks_nor_reads_the_host(in_image, kind):
    started = time.monotonic()
    output, code = in_image(special(None, *PASSWD[kind]), "echo started; timeout 1 head -c 300 /etc/passwd")
    assert output.startswith("started\n") and time.monotonic() - started < 10
    assert pathlib.Path("/etc/passwd").read_text().splitlines()[-1] not in output


def test_a_huge_sparse_passwd_does_not_matter(in_image):
    # GNU sparse in a PAX tar: 3 GB of nothing, one byte at its end.
    size = 3 << 30
    info, _ = entry("etc/passwd", "x")
    info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "etc/passwd",
                        "GNU.sparse.realsize": str(size)}
    body = f"1\n{size - 1}\n1\n".encode().ljust(512, b"\0") + b"x"
    info.size = len(body)
    assert in_image(images.busybox(None, Layer.of((info, body))), "stat -c %s /etc/passwd") == (f"{size}\n", 0)


@pytest.mark.parametrize("directory", ["/missing/deep", "app", "/proc/self/fd/7", "/proc/self/fd/8/../../..", "/link"])
def test_the_images_working_directory_does_not_lead_outside(in_image, directory):
    image = special({"WorkingDir": directory}, symlink("link", "/"))
    assert in_image(image, "pwd -P; ls /workspace") == ("/workspace/repo\nrepo\nskills\ntmp\n", 0)


def test_an_odd_environment(in_image):
    image = special({"Env": ["NOEQUALS", "PATH=/nowhere", "PATH=/bin:/usr/bin", "EMPTY=", "=x", "TWO=a=b"]})
    assert in_image(image, 'echo "$PATH|$EMPTY|$TWO|${NOEQUALS-unset}"') == ("/bin:/usr/bin||a=b|unset\n", 0)


def test_no_path_at_all(in_image):
    assert in_image(special({"Env": []}), "ls / >/dev/null && echo found") == ("found\n", 0)


@pytest.mark.parametrize("config", [
    {"Entrypoint": None, "Cmd": None}, {"Entrypoint": ["/never", "run"]}, {"Shell": ["/bin/nothing", "-c"]},
    {"Volumes": {"/data": {}, "/workspace": {}}}, {"Labels": {"a": "b"}, "StopSignal": "SIGKILL", "Healthcheck": {"Test": ["NONE"]}},
], ids=["none", "entrypoint", "shell", "volumes", "others"])
def test_what_does_not_concern_commands_is_ignored(in_image, config):
    assert in_image(special(config), "echo fine") == ("fine\n", 0)


def test_an_image_without_a_shell_says_so(api, start, push):
    image = oci.Image([Layer.of(entry("etc"), entry("etc/passwd", "root:x:0:0::/:/\n"))], {})
    session = start(push(image, "no-shell"))
    output, code = api.run_one(session, "echo hi")
    assert code == 127 and "shell" in output and output.count("\n") <= 1
    assert api.write(session, "/workspace/repo/a", "content")["error"] is None
    assert api.fs(session, "read", path="/workspace/repo/a")["content"] == "content"


def test_an_image_of_nothing_is_refused_with_words(api, push):
    with pytest.raises(Refused) as refused:
        api.create(push(oci.Image([Layer.of()], {}), "empty"))
    assert refused.value.status == 400 and "layer" in refused.value.detail


def test_pipefail_where_there_is_no_bash(in_image):
    assert in_image(special(), "false | true") == ("", 1)


def test_a_shell_that_has_no_pipefail(api, start, push):
    # A shell that refuses the option, as an old dash does.
    script = '#!/bin/busybox sh\n[ "$1" = -o ] && { echo "sh: illegal option -o pipefail" >&2; exit 2; }\nexec /bin/busybox sh "$@"\n'
    image = special(None, entry("bin/.wh.sh", ""), entry("bin/.wh.ash", ""), entry("bin/.wh.bash", ""))
    image.layers.append(Layer.of(entry("bin/sh", script, mode=0o755)))
    assert api.run(start(push(image, "old-shell")), "false | true", "echo fine") == [("", 0), ("fine\n", 0)]


ODD_PLACES = {
    "no tmp": [entry(".wh.tmp", "")],
    "private tmp": [entry("tmp", mode=0o700)],
    "dev is a link": [entry(".wh.dev", ""), ],
    "dangling resolv.conf": [symlink("etc/resolv.conf", "/run/nowhere/resolv.conf")],
    "hosts is a folder": [entry("etc/hosts")],
    "workspace is a file": [entry("workspace", "file", mode=0o444)],
    "workspace is a link": [symlink("workspace", "/etc")],
    "workspace is read-only": [entry("workspace", mode=0o555), entry("workspace/repo", mode=0o555)],
    "etc is read-only": [entry("etc", mode=0o555)],
}


@pytest.mark.parametrize("kind", ODD_PLACES)
def test_odd_places(in_image, kind):
    output, code = in_image(special(None, *ODD_PLACES[kind]), "echo x > file && cat file && ls /dev/null")
    assert (output, code) == ("x\n/dev/null\n", 0)


@pytest.mark.parametrize("place", ["dev", "proc", "sys", "etc"])
def test_a_system_folder_that_is_a_link_touches_no_host_path(api, push, tmp_path, place):
    """CVE-2026-41579: /dev as a link made the runtime write nodes where it pointed."""
    target = tmp_path / "target"
    target.mkdir(mode=0o777)
    entries = [item for item in images.busybox_entries() if item[0].name != place and not item[0].name.startswith(place + "/")]
    image = oci.Image([Layer.of(*entries, symlink(place, f"../../../../../..{target}"))], {"Env": images.ENVIRONMENT})
    try:
        session = api.create(push(image, f"link-{place}"))
    except Refused as refused:
        assert refused.status == 400
    else:
        api.run(session, "true")
        api.close(session, force=True)
    assert list(target.iterdir()) == []
