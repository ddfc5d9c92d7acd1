"""The last of a boot: a session with a process, as a host finds it that goes down."""
import guest


def test_a_session_runs_when_the_host_goes_down(state):
    api = guest.api()
    state["memory"] = 100 * guest.MIB
    state["session"] = api.create(guest.BUSYBOX, memory_bytes=state["memory"], environment={"WORD": "environment"})
    assert api.run_one(state["session"], "echo written before > kept; sleep 1000 >/dev/null 2>&1 &")[1] == 0
