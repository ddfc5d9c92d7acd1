"""Inputs that broke others: layers. Each image is made here, pulled from a real registry, and looked at from inside."""
import gzip
import pathlib
import subprocess
import tarfile
import tempfile
import zlib

import pytest

import conftest
import images
import oci
from daemon import Refused
from oci import Layer, entry, hardlink, symlink


def base(*layers):
    return images.busybox(None, *layers)


def image_name(node):
    """One for each test and each of its parameters, which may hold what no image's name can."""
    return f"{node.originalname.lower()}-{zlib.crc32(node.name.encode()):08x}"


@pytest.fixture
def look(api, start, push, request):
    """look(image, command): the command's output in a fresh session of the image."""
    counter = iter(range(100))

    def run(image, command):
        return api.output(start(push(image, f"{image_name(request.node)}-{next(counter)}")), command)
    return run


@pytest.fixture
def refused(api, push, request):
    """refused(image): (status, detail) of the attempt to create a session of an image that must be refused."""
    counter = iter(range(100))

    def attempt(image):
        with pytest.raises(Refused) as caught:
            api.create(push(image, f"{image_name(request.node)}-{next(counter)}"))
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


def test_hardlink_and_its_target_in_a_lower_layer_are_one_inode(look):
    """Through the overlay, over several layers, and with the mode of a folder that the upper layer does not name."""
    image = base(Layer.of(entry("opt", mode=0o711), entry("opt/below", "B", mode=0o4755, uid=5, gid=6)),
                 Layer.of(entry("var/between", "x")),
                 Layer.of(hardlink("opt/above", "opt/below"), hardlink("srv/link", "opt/below")))
    output = look(image, "stat -c '%i %h %a %u' /opt/above /opt/below /srv/link; stat -c %a /opt")
    first, second, third, folder = output.splitlines()
    assert first == second == third and first.endswith(" 3 4755 5") and folder == "711"


def test_a_folder_without_an_entry_of_its_own_is_what_it_is_below(look):
    """As containerd has it; else whoever adds a file takes everybody's right to write beside it away."""
    image = base(Layer.of(entry("srv", mode=0o1777), entry("opt"), entry("opt/own", mode=0o710, uid=5, gid=6)),
                 Layer.of(entry("between/x", "x")), Layer.of(entry("srv/x", "x"), entry("opt/own/y", "y"), entry("new/z", "z")))
    assert look(image, "stat -c '%a %u %g' /srv /opt/own /new; echo w > /srv/w && cat /srv/w") == "1777 0 0\n710 5 6\n755 0 0\nw\n"


def test_hardlink_below_two_layers_where_a_whiteout_took_its_target_is_refused(refused):
    status, detail = refused(base(Layer.of(entry("opt/a", "1")), Layer.of(entry("opt/.wh.a", "")),
                                  Layer.of(hardlink("opt/link", "opt/a"))))
    assert status == 400 and "opt/a" in detail


def test_opaque_whiteout_at_the_root_hides_every_layer_below(look):
    image = oci.Image([Layer.of(entry("old", "o")), Layer.of(entry(".wh..wh..opq", ""), *images.busybox_entries()),
                       Layer.of(entry("new", "n"))], {"Env": images.ENVIRONMENT}, base().architecture)
    assert look(image, "[ -e /old ] || echo hidden; cat /new") == "hidden\nn"


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

def plain_of(content):
    """A layer of its own: one that is stored already would not be fetched, and so not be decoded, again."""
    return oci.tar(entry("opt/x", content))


def labelled(plain, stored, media_type):
    return base(Layer(stored, media_type, oci.digest(plain)))


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
    "docker-zstd": (lambda plain: zstd(plain), "application/vnd.docker.image.rootfs.diff.tar.zstd"),
    "zstd-called-gzip": (lambda plain: zstd(plain), oci.DOCKER_LAYER_GZIP),
    "plain-called-gzip": (lambda plain: plain, oci.OCI_LAYER_GZIP),
    "plain": (lambda plain: plain, oci.OCI_LAYER),
    "zstd-many-frames": (lambda plain: skippable() + zstd(plain[:HALF]) + skippable() + zstd(plain[HALF:]) + skippable(), oci.OCI_LAYER_ZSTD),
    "gzip-two-members": (lambda plain: gzip.compress(plain[:HALF]) + gzip.compress(plain[HALF:]), oci.OCI_LAYER_GZIP),
    "gzip-extra-name": (lambda plain: gzip_with_names(plain), oci.OCI_LAYER_GZIP),
    "gzip-trailing-zeros": (lambda plain: gzip.compress(plain) + bytes(512), oci.OCI_LAYER_GZIP),
}


@pytest.mark.parametrize("kind", COMPRESSIONS)
def test_layers_are_decoded_by_their_magic(look, kind):
    pack, media_type = COMPRESSIONS[kind]
    plain = plain_of(kind)
    assert look(labelled(plain, pack(plain), media_type), "cat /opt/x") == kind


def test_bzip2_is_refused_with_words(refused):
    plain = plain_of("bzip2")
    status, detail = refused(labelled(plain, oci.compress(plain, ["bzip2", "-c"]), oci.OCI_LAYER_GZIP))
    assert status == 400 and ("bzip2" in detail or "compress" in detail)


@pytest.mark.parametrize("pack", [lambda plain: gzip.compress(plain)[:-6], lambda plain: zstd(plain)[:-4],
                                  lambda plain: gzip.compress(plain[:HALF]) + gzip.compress(plain[HALF:])[:-20]],
                         ids=["gzip", "zstd", "second-member"])
def test_a_truncated_layer_is_refused(refused, pack, request):
    plain = plain_of(request.node.name)
    assert refused(labelled(plain, pack(plain), oci.OCI_LAYER_GZIP))[0] == 400


def test_a_wrong_diff_id_is_refused(refused):
    assert refused(base(Layer(gzip.compress(plain_of("else")), oci.OCI_LAYER_GZIP, oci.digest(b"else"))))[0] == 400


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


CAP_DAC_OVERRIDE = b"\1\0\0\2" + (1 << 1).to_bytes(4, "little") + bytes(12)  # capability.h, VFS_CAP_REVISION_2, effective


def privileged_programs():
    """The host's cat, a Debian's as the image's: setuid root, and with a file capability."""
    cat = pathlib.Path("/bin/cat").read_bytes()
    return Layer.of(entry("opt/secret", "S", mode=0o400), entry("opt/suid", cat, mode=0o4755),
                    entry("opt/capable", cat, mode=0o755,
                          pax={"SCHILY.xattr.security.capability": CAP_DAC_OVERRIDE.decode()}))


def test_setuid_root_and_file_capabilities_are_the_sessions_root(own_daemon, push):
    """They arrive through the idmapped layer as root's of the session's user namespace, and work where the setting lets them."""
    debian = images.get("debian", conftest.IMAGE_CACHE)
    reference = push(oci.Image([*debian.layers, privileged_programs()], debian.config, debian.architecture), "privileged")
    look = ("python3 -c 'import os; print(os.stat(\"/opt/suid\").st_uid, os.getxattr(\"/opt/capable\", \"security.capability\").hex())'; "
            "id -u; for p in cat /opt/suid /opt/capable; do $p /opt/secret 2>/dev/null || echo -n no; echo; done")
    for setting, expected in (("false", "no S S"), ("true", "no no no")):
        api = own_daemon(DAIV_SANDBOX_NO_NEW_PRIVS=setting).api()
        session = api.create(reference)
        output = api.output(session, look).split()
        assert output[:3] == ["0", CAP_DAC_OVERRIDE.hex(), "1000"]
        assert " ".join(output[3:]) == expected
        api.close(session, force=True)


def test_a_sparse_file_keeps_its_size_and_its_holes(look):
    """As GNU tar writes it (PAX 1.0)."""
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch, "sparse")
        with path.open("wb") as file:
            file.seek(64 << 20)
            file.write(b"end")
        plain = subprocess.run(["tar", "--sparse", "--format=pax", "--owner=0", "--group=0", "-C", scratch, "-c", "sparse"],
                               stdout=subprocess.PIPE, check=True).stdout
    assert len(plain) < 1 << 20
    size, blocks, tail = look(base(Layer.from_tar(plain)), "stat -c '%s %b' /sparse; tail -c 3 /sparse").split()
    assert int(size) == (64 << 20) + 3 and int(blocks) < 256 and tail == "end"


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
