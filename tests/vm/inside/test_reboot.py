"""What a session is after a boot of the host."""
import json

import guest


def test_the_service_starts_with_the_host(_):
    guest.wait_for("the API answers", guest.answers, guest.START_SECONDS)
    assert guest.sh(f"systemctl is-active daiv-sandbox.socket {guest.FRONT} {guest.BROKER} {guest.HOLDER}").split() == ["active"] * 4
    assert [check for check in json.loads(guest.sh("daiv-sandbox doctor --json")) if check["result"] != "ok"] == []


def test_a_stopped_session_is_reopened(state):
    api = guest.api()
    assert api.run_one(state["session"], "cat kept; echo $WORD") == ("written before\nenvironment\n", 0)


def test_its_limits_are_set_again(state):
    assert (guest.cgroup(state["session"]) / "commands/memory.max").read_text().strip() == str(state["memory"])
    guest.api().close(state["session"], force=True)


def test_a_new_session_is_made_of_the_images_that_were_loaded(_):
    with guest.Session() as session:
        assert session.run("echo hello") == ("hello\n", 0)
