"""What a session is after a boot of the host. The first two leave something to the second boot (run.py, BOOTS)."""
import guest


def test_a_stopped_session_is_reopened(state):
    api = guest.api()
    assert api.run_one(state["session"], "cat kept; echo $WORD") == ("written before\nenvironment\n", 0)


def test_its_limits_are_set_again(state):
    assert (guest.cgroup(state["session"]) / "commands/memory.max").read_text().strip() == str(state["memory"])
    guest.api().close(state["session"], force=True)
