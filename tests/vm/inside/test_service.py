"""The host is as the service wants it, and the service says so."""
import guest


def test_doctor_finds_nothing_to_mend(_):
    text = guest.cli("doctor")
    for line in text.splitlines():
        assert "without" not in line and "FAIL" not in line, text


def test_a_session_runs_a_command(_):
    api = guest.api()
    session = api.create(guest.BUSYBOX)
    assert api.run_one(session, "echo hello") == ("hello\n", 0)
    api.close(session, force=True)
