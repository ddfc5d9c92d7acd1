"""Inputs that broke others: layers. Each image is made here, pulled from a real registry, and looked at from inside."""
import gzip
import tarfile
import zlib

import pytest

import images
import oci
from daemon import Refused
from oci import Layer, entry, hardlink, symlink


def base(*layers):
    return images.busybox(None, *layers)


@pytest.fixture
def look(api, start, push, request):
    """look(image, command): the command's output in a fresh session of the image."""
    counter = iter(range(100))

    def run(image, command):
        return api.output(start(push(image, f"{request.node.originalname.lower()}-{next(counter)}".replace("[", "-"))), command)
    return run


@pytest.fixture
def refused(api, push, request):
    """refused(image): (status, detail) of the attempt to create a session of an image that must be refused."""
    counter = iter(range(100))

    def attempt(image):
        with pytest.raises(Refused) as caught:
            api.create(push(image, f"{request.node.originalname.lower()}-{next(counter)}"))
        return caught.value.status, caught.value.detail
    return attempt


def test_hardlink_whose_parent_has_no_entry(look):
    layer = Layer.of(entry("opt/app", "A", mode=0o755), hardlink("opt/app.runfiles/_main/app_/app", "opt/app"))
    output = look(base(layer), "stat -c '%i' /opt/app /opt/app.runfiles/_main/app_/app; stat -c '%a %u' /opt/app.runfiles/_main")
    first, second, parent = output.splitlines()
    assert first == second and parent == "755 0"


def test_hardlink_to_a_file_of_a_lower_layer(look):
    image = base(Layer.of(entry("opt/below", "B")), Layer.of(hardlink("opt/above", "opt/below")))
    assert look(image, "cat /opt/above /opt/below") == "BB"


@pytest.mark.parametrize("new", [entry("d/new", "n"), symlink("d/new", "/nowhere")], ids=["file", "symlink"])
def test_opaque_whiteout_between_new_files(look, new):
    image = base(Layer.of(entry("d"), entry("d/old", "o"), entry("d/sub"), entry("d/sub/x", "x")),
                 Layer.of(entry("d"), new, entry("d/.wh..wh..opq", ""), entry("d/late", "l")))
    assert look(image, "ls -A /d") == "late\nnew\n"


@pytest.mark.parametrize("whiteout_first", [True, False])
def test_a_whiteout_applies_to_lower_layers_only(look, whiteout_first):
    entries = [entry("opt/.wh.a", ""), entry("opt/a", "2")]
    image = base(Layer.of(entry("opt/a", "1")), Layer.of(*(entries if whiteout_first else reversed(entries))))
    assert look(image, "cat /opt/a; ls -A /opt") == "2a\n"


def test_a_whiteout_removes(look):
    image = base(Layer.of(entry("opt/a", "1"), entry("opt/b", "1"), entry("opt/dir/x", "1")),
                 Layer.of(entry("opt/.wh.a", ""), entry("opt/.wh.dir", "")))
    assert look(image, "ls -A /opt") == "b\n"


@pytest.mark.parametrize("name", ["etc/.wh.", ".wh..", ".wh...", "etc/.wh..", "./.wh.../.wh.a"])
def test_a_meaningless_whiteout_is_refused_by_name(refused, look, name):
    status, detail = refused(base(Layer.of(entry(name, ""))))
    assert status == 400 and "whiteout" in detail and ".wh" in detail
    assert "passwd" in look(base(), "ls /etc"), "another image is as it was"


def test_a_symlink_replaced_by_a_file_leaves_its_target_alone(look):
    image = base(Layer.of(symlink("usr/bin/tool", "/bin/busybox")), Layer.of(entry("usr/bin/tool", "real", mode=0o755)))
    assert look(image, "cat /usr/bin/tool; [ $(stat -c %s /bin/busybox) -gt 1000 ] && echo ' whole'") == "real whole\n"


def test_a_file_becomes_a_folder_and_back(look):
    assert look(base(Layer.of(entry("opt/a", "1")), Layer.of(entry("opt/a"), entry("opt/a/b", "2"))), "cat /opt/a/b") == "2"
    assert look(base(Layer.of(entry("opt/a"), entry("opt/a/b", "2")), Layer.of(entry("opt/a", "1"))), "cat /opt/a") == "1"


def test_a_folder_becomes_a_symlink_and_back(look):
    image = base(Layer.of(entry("opt/a"), entry("opt/a/b", "2")), Layer.of(symlink("opt/a", "/bin")))
    assert look(image, "readlink /opt/a") == "/bin\n"
    image = base(Layer.of(symlink("opt/lib", "/usr/bin")), Layer.of(entry("opt/lib"), entry("opt/lib/x", "x")))
    assert look(image, "ls /opt/lib; [ -L /opt/lib ] || echo dir") == "x\ndir\n"


@pytest.mark.parametrize("count", [128, 200, 500])
def test_many_layers(look, count):
    layers = [Layer.of(entry(f"n/{number}", str(number))) for number in range(count - 1)]
    assert look(base(*layers), "ls /n | wc -l") == f"{count - 1}\n"


def test_one_layer_too_many_is_refused_before_anything_is_mounted(refused):
    status, detail = refused(base(*(Layer.of(entry(f"n/{number}", "")) for number in range(500))))
    assert status == 400 and "500" in detail


# --- compression ------------------------------------------------------------------------------------------------------

PLAIN = oci.tar(entry("opt/x", "content"))
DIFF_ID = oci.digest(PLAIN)


def labelled(stored, media_type):
    return base(Layer(stored, media_type, DIFF_ID))


def skippable(data=b"skip"):
    return b"\x50\x2a\x4d\x18" + len(data).to_bytes(4, "little") + data


def zstd(data):
    return oci.compress(data, ["zstd", "-q", "-c"])


def gzip_with_names(data):
    body = zlib.compressobj(6, zlib.DEFLATED, -15)
    packed = body.compress(data) + body.flush()
    header = b"\x1f\x8b\x08\x0c\0\0\0\0\0\x03" + b"\x04\0abcd" + b"name\0"  # FEXTRA and FNAME
    return header + packed + zlib.crc32(data).to_bytes(4, "little") + len(data).to_bytes(4, "little")


HALF = 700
COMPRESSIONS = {
    "docker-zstd": (zstd(PLAIN), "application/vnd.docker.image.rootfs.diff.tar.zstd"),
    "zstd-called-gzip": (zstd(PLAIN), oci.DOCKER_LAYER_GZIP),
    "plain-called-gzip": (PLAIN, oci.OCI_LAYER_GZIP),
    "plain": (PLAIN, oci.OCI_LAYER),
    "zstd-many-frames": (skippable() + zstd(PLAIN[:HALF]) + skippable() + zstd(PLAIN[HALF:]) + skippable(), oci.OCI_LAYER_ZSTD),
    "gzip-two-members": (gzip.compress(PLAIN[:HALF]) + gzip.compress(PLAIN[HALF:]), oci.OCI_LAYER_GZIP),
    "gzip-extra-name": (gzip_with_names(PLAIN), oci.OCI_LAYER_GZIP),
    "gzip-trailing-zeros": (gzip.compress(PLAIN) + bytes(512), oci.OCI_LAYER_GZIP),
}


@pytest.mark.parametrize("kind", COMPRESSIONS)
def test_layers_are_decoded_by_their_magic(look, kind):
    assert look(labelled(*COMPRESSIONS[kind]), "cat /opt/x") == "content"


def test_bzip2_is_refused_with_words(refused):
    status, detail = refused(labelled(oci.compress(PLAIN, ["bzip2", "-c"]), oci.OCI_LAYER_GZIP))
    assert status == 400 and ("bzip2" in detail or "compress" in detail)


@pytest.mark.parametrize("stored", [gzip.compress(PLAIN)[:-6], zstd(PLAIN)[:-4],
                                    gzip.compress(PLAIN[:HALF]) + gzip.compress(PLAIN[HALF:])[:-20]],
                         ids=["gzip", "zstd", "second-member"])
def test_a_truncated_layer_is_refused(refused, stored):
    assert refused(labelled(stored, oci.OCI_LAYER_GZIP))[0] == 400


def test_a_wrong_diff_id_is_refused(refused):
    assert refused(base(Layer(gzip.compress(PLAIN), oci.OCI_LAYER_GZIP, oci.digest(b"else"))))[0] == 400


# --- what a layer may hold --------------------------------------------------------------------------------------------

def test_metadata_is_kept(look):
    layer = Layer.of(entry("opt/owned", "x", uid=1234, gid=4321, mode=0o4750, mtime=1_234_567_890),
                     entry("opt/dir", mode=0o1777))
    assert look(base(layer), "stat -c '%u %g %a %Y' /opt/owned; stat -c %a /opt/dir") == "1234 4321 4750 1234567890\n1777\n"


def test_long_names_in_both_dialects(look):
    for dialect in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        name = "opt/" + "/".join(["d" * 100] * 4) + "/" + "f" * 200
        layer = Layer.from_tar(oci.tar(entry(name, "long"), symlink("opt/l", "t" * 300), format=dialect))
        assert look(base(layer), f"cat /{name}; readlink /opt/l") == "long" + "t" * 300 + "\n"


def test_duplicate_entries_the_last_wins(look):
    assert look(base(Layer.of(entry("opt/a", "1"), entry("opt/a", "22"))), "cat /opt/a") == "22"


def test_a_child_before_its_parent(look):
    layer = Layer.of(entry("opt/p/c", "x"), entry("opt/p", mode=0o700, uid=1000, gid=1000))
    assert look(base(layer), "stat -c '%a %u' /opt/p; cat /opt/p/c") == "700 1000\nx"


def test_device_nodes_are_harmless(api, start, push):
    layer = Layer.of(entry("opt/disk", kind=tarfile.BLKTYPE, mode=0o666, device=(254, 0)),
                     entry("opt/mem", kind=tarfile.CHRTYPE, mode=0o666, device=(1, 1)))
    session = start(push(base(layer), "devices"))
    for name in ("disk", "mem"):
        output, code = api.run_one(session, f"head -c 1 /opt/{name}")
        assert code != 0 and output


# --- entries that point outside ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("layer", [
    [entry("../../escaped", "x")],
    [entry("/absolute/../../escaped", "x")],
    [symlink("opt/out", "/var/tmp"), entry("opt/out/escaped", "x")],
    [symlink("opt/out", "../../../../../../var/tmp"), entry("opt/out/escaped", "x")],
    [symlink("opt/a", "b"), symlink("opt/b", "/var/tmp"), entry("opt/a/escaped", "x")],
    [hardlink("opt/shadow", "/etc/shadow")],
    [hardlink("opt/shadow", "../../../../../../etc/shadow")],
    [symlink("opt/e", "/etc"), hardlink("opt/shadow", "opt/e/shadow")],
], ids=["dotdot", "absolute-dotdot", "absolute-link", "relative-link", "chained", "hardlink", "hardlink-dotdot", "hardlink-via-link"])
def test_no_entry_reaches_outside_its_layer(api, push, layer, daemon, request):
    """Refused or kept inside; in no case is there a file of the host that was not there, or one of it inside."""
    import pathlib
    try:
        session = api.create(push(base(Layer.of(*layer)), request.node.callspec.id))
    except Refused as refused:
        assert refused.status == 400
    else:
        host = pathlib.Path("/etc/shadow").read_text().splitlines()[0]
        output, _ = api.run_one(session, "cat /opt/shadow 2>/dev/null")
        assert host not in output
        api.close(session, force=True)
    for place in ("/var/tmp/escaped", "/escaped", str(daemon.state / "escaped"), str(daemon.directory / "escaped")):
        assert not pathlib.Path(place).exists(), place
