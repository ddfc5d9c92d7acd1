"""File operations over HTTP on a live session: every error code of the API's table, and what grep, glob and edit answer."""
import base64

import pytest

import daemon as daemons

REPO = "/workspace/repo"
# Nobody but its reader may read it, and that is the sandbox's user; two files keep it out by their mode.
TREE = r"""
mkdir -p d/sub other locked unreadable .git node_modules/m
printf 'one\ntwo\nthree\n' > text
printf 'caf\351\n' > latin
: > empty
head -c 600000 /dev/zero | tr '\0' '\377' > large
printf 'a\r\nb\r\n' > crlf
printf 'needle 1\nhay\nneedle 2\n' > d/a.py
printf 'hay\nneedle 3\n' > d/sub/b.txt
printf 'needle \303\251\n' > other/c.py
echo needle > .git/config
echo needle > node_modules/m/n.py
echo x > locked/file; chmod 0555 locked
echo needle > unreadable/file; chmod 0 unreadable/file
i=0; while [ $i -lt 250 ]; do echo "many $i"; i=$((i+1)); done > many
ln -s text link; ln -s nowhere dangling
"""
OPERATIONS = {
    "ls": {}, "read": {}, "grep": {"pattern": "x"}, "glob": {"pattern": "*"}, "write": {"content": ""},
    "edit": {"old": "a", "new": "b"}, "delete": {}}
# What an answer holds besides its error, where there is one.
NOTHING = {
    "ls": {"entries": []}, "grep": {"matches": [], "truncated": False}, "glob": {"matches": []},
    "read": {"content": None, "encoding": None, "total_lines": None, "end_line": None, "truncated": False},
    "write": {"ok": False}, "edit": {"occurrences": None}, "delete": {"ok": False, "removed": False}}


@pytest.fixture(scope="module")
def live(build, busybox):
    """(api, session): one session for the whole module, with the tree above."""
    with daemons.Daemon(build) as running:
        api = running.api()
        session = api.create(busybox)
        assert api.output(session, TREE) == ""
        yield api, session
        api.close(session, force=True)


def content(data):
    return base64.b64encode(data).decode()


FAILURES = [
    *((operation, path, {}, "invalid_path") for operation in OPERATIONS
      for path in ("/etc/passwd", "relative", "", f"{REPO}/../../etc", f"{REPO}/a\0b", f"{REPO}/a\nb", "/workspacex/f")),
    *((operation, "/workspace", {}, "invalid_path") for operation in ("read", "write", "edit", "delete")),
    *((operation, f"{REPO}/none", {}, "not_found") for operation in ("ls", "read", "grep", "glob", "edit")),
    *((operation, f"{REPO}/text", {}, "not_a_directory") for operation in ("ls", "glob")),
    *((operation, f"{REPO}/d", {}, "is_a_directory") for operation in ("read", "edit", "delete")),
    ("edit", f"{REPO}/latin", {}, "not_a_text_file"),
    ("edit", f"{REPO}/text", {"old": "none"}, "string_not_found"),
    ("edit", f"{REPO}/text", {"old": "t"}, "multiple_occurrences"),
    ("write", f"{REPO}/text", {"content": content(b"x")}, "already_exists"),
    ("write", f"{REPO}/dangling", {"content": content(b"x")}, "already_exists"),
    ("read", f"{REPO}/large", {}, "too_large"),
    *(("read", f"{REPO}/text", {"offset": offset}, "invalid_offset") for offset in (3, 10**19, 10**30, "9" * 30)),
    ("read", f"{REPO}/unreadable/file", {}, "permission_denied"),
    ("write", f"{REPO}/locked/new", {}, "permission_denied"),
    ("delete", f"{REPO}/locked/file", {}, "exec_failed"),  # as the Docker variant, whose rm fails
    ("edit", f"{REPO}/unreadable/file", {}, "permission_denied"),
    ("grep", f"{REPO}/unreadable", {"pattern": "needle"}, "exec_failed"),
    ("grep", REPO, {"pattern": "("}, "invalid_pattern"),
]


def test_every_failure_has_its_code(live):
    api, session = live
    for operation, path, fields, code in FAILURES:
        reply = api.fs(session, operation, path=path, **{**OPERATIONS[operation], **fields})
        error = reply.pop("error")
        assert error is not None and set(error) == {"code", "message"}, (operation, path, fields, reply)
        assert error["code"] == code and error["message"], (operation, path, fields, error)
        assert reply == NOTHING[operation], (operation, path, fields)
    assert api.output(session, "cat text empty; ls locked unreadable") == "one\ntwo\nthree\nlocked:\nfile\n\nunreadable:\nfile\n"


def test_the_codes_are_those_of_the_interface(live):
    api, _ = live
    document = api.call("GET", "/openapi.json")
    codes = set(document["components"]["schemas"]["FsErrorCode"]["enum"])
    assert codes == {code for *_, code in FAILURES}


def test_a_number_of_any_size_is_one(live):
    api, session = live
    for limit in (10**19, 10**30, "9" * 30):
        assert api.fs(session, "read", path=f"{REPO}/text", limit=limit)["content"] == "one\ntwo\nthree"
        for field in ("offset", "limit"):
            with pytest.raises(daemons.Refused) as refused:
                api.fs("0" * 32, "read", path=f"{REPO}/text", **{field: limit})
            assert refused.value.status == 404
    for number in ("9" * 300, "-" + "9" * 300):
        body = '{"path":"/workspace/x","offset":%s}' % number
        assert api.raw("POST", f"/session/{session}/fs/read", body, {"Content-Type": "application/json"})[0] == 422


def test_ls_and_read(live):
    api, session = live
    assert api.fs(session, "ls", path=f"{REPO}/d") == {
        "entries": [{"path": f"{REPO}/d/a.py", "is_dir": False}, {"path": f"{REPO}/d/sub", "is_dir": True}], "error": None}
    assert {entry["path"] for entry in api.fs(session, "ls", path="/workspace")["entries"]} >= {REPO}
    for path in ("text", "link"):
        assert api.fs(session, "read", path=f"{REPO}/{path}", offset=1, limit=1) == {
            "content": "two", "encoding": "utf-8", "total_lines": 3, "end_line": 2, "truncated": False, "error": None}
    latin = api.fs(session, "read", path=f"{REPO}/latin")
    assert (latin["content"], latin["encoding"], latin["total_lines"]) == (content(b"caf\xe9\n"), "base64", None)
    empty = api.fs(session, "read", path=f"{REPO}/empty")
    assert empty["content"] and empty["encoding"] == "utf-8" and empty["total_lines"] is None


def found(reply):
    assert reply["error"] is None, reply
    return [(match["path"].removeprefix(f"{REPO}/"), match["line"], match["text"]) for match in reply["matches"]]


def test_grep(live):
    api, session = live
    in_d = [("d/a.py", 1, "needle 1"), ("d/a.py", 3, "needle 2"), ("d/sub/b.txt", 2, "needle 3")]
    in_other = [("other/c.py", 1, "needle é")]
    assert found(api.fs(session, "grep", path=f"{REPO}/d", pattern="needle")) == in_d
    assert found(api.fs(session, "grep", path=f"{REPO}/d", pattern=r"needle [13]$", glob="*.py")) == in_d[:1]
    assert found(api.fs(session, "grep", path=f"{REPO}/d", pattern="needle", exclude=["sub"])) == in_d[:2]
    assert found(api.fs(session, "grep", path=f"{REPO}/other", pattern=r"\bneedle .$")) == in_other
    assert found(api.fs(session, "grep", path=f"{REPO}/d/a.py", pattern="HAY")) == []
    assert found(api.fs(session, "grep", path=f"{REPO}/node_modules", pattern="needle")) == [("node_modules/m/n.py", 1, "needle")]
    many = api.fs(session, "grep", path=f"{REPO}/many", pattern="many")
    assert found(many) == [("many", n + 1, f"many {n}") for n in range(200)] and many["truncated"]
    assert api.fs(session, "grep", path=f"{REPO}/d", pattern="needle")["truncated"] is False


def test_glob(live):
    api, session = live

    def paths(pattern, path=REPO, **more):
        reply = api.fs(session, "glob", path=path, pattern=pattern, **more)
        assert reply["error"] is None, reply
        return [match["path"].removeprefix(f"{path}/") for match in reply["matches"]]

    assert paths("**/*.py") == ["d/a.py", "node_modules/m/n.py", "other/c.py"]
    assert paths("**/*.py", exclude=["node_modules"]) == ["d/a.py", "other/c.py"]
    assert paths("[lt]*t") == ["text"]
    assert paths("*", f"{REPO}/d") == ["a.py", "sub"]
    assert paths("?.py", f"{REPO}/d") == ["a.py"]
    assert paths("**/config") == [], "a folder that is passed over"
    assert paths("none*") == []


def test_write_edit_and_delete(live):
    api, session = live
    path = f"{REPO}/new/deep/file"
    assert api.fs(session, "write", path=path, content=content(b"a b a\n"), mode=0o755) == {"ok": True, "error": None}
    assert api.output(session, "stat -c %a new/deep/file; cat new/deep/file") == "755\na b a\n"
    assert api.fs(session, "edit", path=path, old="b", new="c") == {"occurrences": 1, "error": None}
    assert api.fs(session, "edit", path=path, old="a", new="", replace_all=True) == {"occurrences": 2, "error": None}
    assert api.output(session, "stat -c %a new/deep/file; cat new/deep/file") == "755\n c \n"
    assert api.fs(session, "edit", path=f"{REPO}/crlf", old="a\nb", new="x\ny")["occurrences"] == 1
    assert api.output(session, "od -An -c crlf").split() == ["x", r"\r", r"\n", "y", r"\r", r"\n"]
    assert api.fs(session, "delete", path=path) == {"ok": True, "removed": True, "error": None}
    assert api.fs(session, "delete", path=path) == {"ok": True, "removed": False, "error": None}
    assert api.fs(session, "delete", path=f"{REPO}/link")["removed"]
    assert api.output(session, "ls link new/deep 2>&1; cat text").endswith("one\ntwo\nthree\n")
