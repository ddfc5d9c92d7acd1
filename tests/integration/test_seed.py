"""Inputs that broke others: seed archives. Sanitised, owned by the sandbox user, all or nothing."""
import bz2
import concurrent.futures
import gzip
import io
import lzma
import os
import subprocess
import tarfile

import pytest

import oci
from daemon import multipart
from oci import entry, hardlink, symlink

HELLO = [entry("hello.txt", "hello\n"), entry("dir"), entry("dir/deep.txt", "deep\n")]


def seeded(api, session, *entries, **more):
    """Seeds SESSION with these entries; the seed must succeed."""
    status, body = api.seed(session, repo=oci.tar(*entries, **more))
    assert status == 204, body
    return session


def files(api, session):
    return sorted(api.output(session, "find . -mindepth 1 | sort").split())


COMPRESSIONS = {
    "plain": lambda data: data, "gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress,
    "zst": lambda data: oci.compress(data, ["zstd", "-q", "-c"]),
    "gz of two members": lambda data: gzip.compress(data[:700]) + gzip.compress(data[700:]),
}


@pytest.mark.parametrize("kind", COMPRESSIONS)
def test_compressions(api, small, kind):
    assert api.seed(small, repo=COMPRESSIONS[kind](oci.tar(*HELLO)))[0] == 204
    assert files(api, small) == ["./dir", "./dir/deep.txt", "./hello.txt"]
    assert api.output(small, "cat hello.txt; stat -c '%u %g' hello.txt dir") == "hello\n1000 1000\n1000 1000\n"


def test_a_window_of_two_gigabytes_is_an_answer_not_that_memory(api, small):
    status, body = api.seed(small, repo=oci.compress(oci.tar(*HELLO), ["zstd", "-q", "-c", "--long=31", "--ultra", "-3"]))
    assert status in (204, 422), body
    assert files(api, small) == ([] if status == 422 else ["./dir", "./dir/deep.txt", "./hello.txt"])


def test_both_archives_at_once(api, small):
    status, _ = api.seed(small, repo=oci.tar(entry("r", "1")), skills=oci.tar(entry("s", "2")))
    assert status == 204
    assert api.output(small, "cat r /workspace/skills/s") == "12"


def test_a_second_seed_is_a_conflict(api, small):
    seeded(api, small, *HELLO)
    assert api.seed(small, repo=oci.tar(*HELLO))[0] == 409


def test_no_archive_and_empty_fields(api, small):
    body, content_type = multipart({})
    assert api.raw("POST", f"/session/{small}/seed/", body, {"Content-Type": content_type})[0] == 422
    assert api.seed(small, repo=b"")[0] == 422
    assert api.seed(small, repo=oci.tar(*HELLO))[0] == 204, "a failed seed may be tried again"


# --- what is left out or kept -----------------------------------------------------------------------------------------

def test_git_archive_leaves_no_pax_header_file(api, session, tmp_path):
    subprocess.run("git init -q -b main . && git -c user.name=t -c user.email=t@t commit -q --allow-empty -m x && echo a > a && git add a "
                   "&& git -c user.name=t -c user.email=t@t commit -q -m y", shell=True, cwd=tmp_path, check=True)
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=tmp_path, stdout=subprocess.PIPE, check=True).stdout
    assert api.seed(session, repo=archive)[0] == 204
    assert files(api, session) == ["./a"]


def test_a_clean_repository_with_symlinks_stays_clean(api, session, tmp_path):
    subprocess.run("git init -q -b main . && mkdir d && echo a > d/a && ln -s d/a link && ln -s d dirlink && git add . "
                   "&& git -c user.name=t -c user.email=t@t commit -q -m x", shell=True, cwd=tmp_path, check=True)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        archive.add(tmp_path, arcname=".")
    assert api.seed(session, repo=out.getvalue())[0] == 204
    assert api.output(session, "git status --porcelain; git log --oneline | wc -l; cat link") == "1\na\n"


def test_only_files_no_folders(api, small):
    seeded(api, small, entry("a/b/c", "x"))
    assert api.output(small, "cat a/b/c; stat -c %u a a/b; mkdir a/new") == "x1000\n1000\n"


def test_a_duplicate_entry_the_last_wins(api, small):
    seeded(api, small, entry("a", "1"), entry("a", "22"))
    assert api.output(small, "cat a") == "22"


def test_a_private_root_entry_does_not_lock_the_workspace(api, small):
    seeded(api, small, entry("./", mode=0o700), entry("./a", "x"))
    assert api.run_one(small, "cat a && touch b") == ("x", 0)


def test_folders_of_mode_zero_stay_usable(api, small):
    seeded(api, small, entry("closed", mode=0), entry("closed/a", "x", mode=0))
    assert api.run_one(small, "ls closed")[1] in (0, 1)
    assert api.status(small) == 204


ESCAPES = {
    "dotdot": [entry("../escaped", "x")],
    "absolute": [entry("/tmp/escaped", "x")],
    "deep dotdot": [entry("a/../../../../tmp/escaped", "x")],
    "member through a link": [symlink("out", "/tmp"), entry("out/escaped", "x")],
    "chained links": [symlink("a", "b"), symlink("b", "../.."), entry("a/tmp/escaped", "x")],
    "hardlink out": [hardlink("escaped", "/etc/passwd")],
    "hardlink through a link": [symlink("e", "/etc"), hardlink("escaped", "e/passwd")],
}


@pytest.mark.parametrize("kind", ESCAPES)
def test_nothing_is_written_outside_the_target(api, small, kind):
    status, body = api.seed(small, repo=oci.tar(entry("inside", "fine"), *ESCAPES[kind]))
    assert status in (204, 422), body
    assert api.run_one(small, "ls /tmp/escaped /workspace/escaped /escaped 2>/dev/null")[0] == ""
    assert "root:x" not in api.run_one(small, "cat escaped 2>/dev/null")[0]
    if status == 204:
        assert api.output(small, "cat inside") == "fine"


SPECIAL = {
    "fifo": entry("odd", kind=tarfile.FIFOTYPE, mode=0o644),
    "char device": entry("odd", kind=tarfile.CHRTYPE, device=(1, 3), mode=0o666),
    "block device": entry("odd", kind=tarfile.BLKTYPE, device=(8, 0), mode=0o666),
}


@pytest.mark.parametrize("kind", SPECIAL)
def test_special_files_are_left_out(api, small, kind):
    seeded(api, small, SPECIAL[kind], *HELLO)
    assert "./odd" not in files(api, small)


def test_setuid_and_owner_are_dropped(api, small):
    seeded(api, small, entry("s", "x", mode=0o6755, uid=0, gid=0))
    assert api.output(small, "stat -c '%u %g' s; [ -u s ] || [ -g s ] || echo plain") == "1000 1000\nplain\n"


def test_symlinks_within_the_tree_are_kept(api, small):
    seeded(api, small, entry("d"), entry("d/a", "x"), symlink("l", "d/a"), symlink("d/up", "../d/a"), hardlink("h", "d/a"))  # hard links are left out
    assert api.output(small, "cat l d/up; ls h 2>/dev/null || echo none") == "xxnone\n"


def test_the_archives_mtime_is_kept(api, small):
    seeded(api, small, entry("a", "x", mtime=1_234_567_890))
    assert api.output(small, "stat -c %Y a") == "1234567890\n"


def test_a_name_component_that_is_too_long_is_left_out(api, small):
    seeded(api, small, entry("n" * 300, "x"), *HELLO)
    assert files(api, small) == ["./dir", "./dir/deep.txt", "./hello.txt"]


def test_apple_doubles_do_not_fail(api, small):
    seeded(api, small, entry("._hello.txt", b"\0\5\x16\7"), entry("a", "x", pax={"LIBARCHIVE.xattr.user.x": "eA=="}), *HELLO)
    assert "./a" in files(api, small)


# --- broken archives: 422, and nothing of them left -------------------------------------------------------------------

BROKEN = {
    "truncated gz": gzip.compress(oci.tar(*HELLO))[:-12],
    "cut inside a header": oci.tar(*HELLO)[:700],
    "cut inside a file": oci.tar(entry("big", os.urandom(100_000)))[:50_000],
    "garbage": os.urandom(10_000),
    "followed by garbage": oci.tar(*HELLO) + os.urandom(4096),
    "not a tar": gzip.compress(b"hello"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_archive_leaves_nothing_and_may_be_tried_again(api, small, kind):
    status, body = api.seed(small, repo=BROKEN[kind])
    assert status == 422, body
    assert files(api, small) == []
    assert api.seed(small, repo=oci.tar(*HELLO))[0] == 204


def test_a_broken_second_archive_takes_the_first_back(api, small):
    assert api.seed(small, repo=oci.tar(*HELLO), skills=BROKEN["truncated gz"])[0] == 422
    assert files(api, small) == [] and api.output(small, "ls -A /workspace/skills") == ""
    assert api.seed(small, repo=oci.tar(*HELLO))[0] == 204


def test_concatenated_tars_are_an_answer_not_a_hang(api, small):
    status, _ = api.seed(small, repo=oci.tar(entry("a", "1")) + oci.tar(entry("b", "2")))
    assert status in (204, 422)


# --- large ones -------------------------------------------------------------------------------------------------------

def test_a_bomb_is_stopped(own_daemon, busybox):
    daemon = own_daemon(DAIV_SANDBOX_SEED_MAX_BYTES=str(64 << 20))
    api = daemon.api()
    session = api.create(busybox)
    info, _ = entry("zeros", b"")
    info.size = 1 << 30
    packed = subprocess.run(["gzip", "-9"], input=info.tobuf() + bytes(1 << 30) + bytes(1024), stdout=subprocess.PIPE).stdout
    assert api.seed(session, repo=packed)[0] in (413, 422)
    assert files(api, session) == []
    api.close(session, force=True)


def test_many_small_files(api, session):
    seeded(api, session, *(entry(f"d{number % 50}/f{number}", str(number)) for number in range(5000)))
    assert api.output(session, "find . -type f | wc -l") == "5000\n"


def test_a_boundary_inside_the_archive_is_data(api, small):
    """The multipart boundary's text appears in the archive, cut at every place of a 64 KiB buffer's edge."""
    body, content_type = multipart({"repo_archive": b"@"})
    boundary = content_type.rpartition("=")[2].encode()
    noise = b"".join(b"\r\n--" + boundary[:-1] + bytes([65 + number % 26]) * (number % 7) for number in range(60_000))
    payload = oci.tar(entry("noise", noise))
    assert api.raw("POST", f"/session/{small}/seed/", body.replace(b"@", payload), {"Content-Type": content_type})[0] == 204
    assert api.output(small, "stat -c %s noise") == f"{len(noise)}\n"


def test_of_two_seeds_at_once_one_wins(daemon, api, small):
    archive = oci.tar(*HELLO, entry("big", os.urandom(2 << 20)))
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        statuses = sorted(pool.map(lambda _: daemon.api().seed(small, repo=archive)[0], range(4)))
    assert statuses == [204, 409, 409, 409]
