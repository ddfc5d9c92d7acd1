"""The life of a session over the API: create, run, close, reopen, remove."""
import concurrent.futures
import uuid

import pytest

from daemon import Refused


def test_a_session_runs_commands_in_its_workspace(api, session):
    assert api.run(session, "pwd", "echo hi; exit 3", "false | true", "id -u; id -g") == [
        ("/workspace/repo\n", 0), ("hi\n", 3), ("", 1), ("1000\n1000\n", 0)]


def test_files_and_processes_of_the_image_survive_between_requests(api, session):
    api.run(session, "echo kept > kept.txt")
    assert api.output(session, "cat kept.txt") == "kept\n"


def test_fail_fast_stops_at_the_first_failure(api, session):
    assert [code for _, code in api.run(session, "true", "exit 7", "echo never", fail_fast=True)] == [0, 7]


def test_environment_of_image_and_request_reaches_commands(api, start, push):
    import images
    reference = push(images.busybox({"Env": ["PATH=/bin:/usr/bin", "FROM_IMAGE=1", "BOTH=image"]}), "environment")
    session = start(reference, environment={"FROM_REQUEST": "2", "BOTH": "request"})
    assert api.output(session, 'echo "$FROM_IMAGE $FROM_REQUEST $BOTH"') == "1 2 request\n"


def test_a_closed_session_reopens_with_its_files(api, start, debian):
    session = start(debian)
    api.run(session, "echo kept > kept.txt")
    api.close(session)
    assert api.status(session) == 204
    assert api.output(session, "cat kept.txt") == "kept\n"


def test_a_command_reopens_a_closed_session(api, start, debian):
    session = start(debian)
    api.close(session)
    assert api.run_one(session, "echo back") == ("back\n", 0)


def test_a_removed_session_is_gone(api, debian):
    session = api.create(debian)
    api.close(session, force=True)
    assert api.status(session) == 404
    api.close(session, force=True)  # done already: no error


def test_two_sessions_share_nothing_that_one_writes(api, start, busybox):
    first, second = start(busybox), start(busybox)
    api.run(first, "echo mine > /tmp/file; echo mine > file")
    assert api.run(second, "ls /tmp /workspace/repo")[0][0].count("file") == 0


def test_another_session_has_other_host_uids(daemon, api, start, busybox):
    outside = set()
    for session in (start(busybox), start(busybox)):
        outside.add(api.output(session, "cat /proc/self/uid_map").split()[1])
    assert len(outside) == 2
    assert all(int(uid) in daemon.uids for uid in outside)


@pytest.mark.parametrize("wrong", ["x", "0" * 31, "0" * 33, str(uuid.uuid4()), "..%2f..", "a" * 300])
def test_only_whole_ids_of_sessions_are_accepted(api, wrong):
    assert api.status(wrong) == 404


def test_a_prefix_of_an_id_is_not_that_session(api, small):
    assert api.status(small[:12]) == 404


@pytest.mark.parametrize("image, status", [
    ("", 400), ("library/UPPER", 400), ("bad:tag:twice", 400), ("127.0.0.1:1/nobody/there", 503)])
def test_an_image_that_cannot_be_had_says_so(api, image, status):
    with pytest.raises(Refused) as refused:
        api.create(image)
    assert refused.value.status in ((status, 422) if image == "" else (status,))
    assert refused.value.detail


def test_an_unknown_image_of_a_known_registry_is_the_callers_mistake(api, registry):
    with pytest.raises(Refused) as refused:
        api.create(f"{registry.address}/no/such:image")
    assert refused.value.status == 400


@pytest.mark.parametrize("more", [
    {"memory_bytes": -1}, {"cpus": -1}, {"cpus": 1e9}, {"environment": {"": "x"}}, {"environment": {"A=B": "x"}},
    {"environment": {"A": "x\0y"}}])
def test_what_cannot_be_set_is_refused_with_a_reason(api, busybox, more):
    with pytest.raises(Refused) as refused:
        api.create(busybox, **more)
    assert refused.value.status in (400, 422)
    assert refused.value.detail


def test_zero_and_null_mean_no_limit(api, start, busybox):
    assert api.run_one(start(busybox, memory_bytes=0, cpus=0), "true")[1] == 0
    assert api.run_one(start(busybox, memory_bytes=None, cpus=None), "true")[1] == 0


def test_a_removed_workspace_is_made_again(api, small):
    api.run(small, "cd /; rm -rf /workspace/repo")
    assert api.run_one(small, "pwd") == ("/workspace/repo\n", 0)


def test_sessions_do_not_wait_for_each_other(daemon, start, busybox):
    slow, quick = start(busybox), start(busybox)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        sleeping = pool.submit(daemon.api().run_one, slow, "sleep 3")
        for _ in range(20):
            assert daemon.api().run_one(quick, "echo now") == ("now\n", 0)
        assert not sleeping.done()
        assert sleeping.result() == ("", 0)


def test_the_api_key_is_needed(daemon):
    for key in ("", "wrong", "integration-keyx"):
        assert daemon.api(key=key).raw("POST", "/session/", b"{}", {"Content-Type": "application/json"})[0] in (401, 403)


def test_root_and_prefix_give_the_same(daemon):
    for prefix in ("", "/api/v1"):
        assert daemon.api(prefix=prefix).raw("GET", "/-/health/")[0] == 200
        assert daemon.api(prefix=prefix).raw("GET", "/-/version/")[0] == 200
