"""The packaged profile of the front. What runs after this, runs under it, until test_removal takes it back."""
import apparmor
import guest


def test_the_profile_is_in_force(_):
    apparmor.need()
    apparmor.put_in_force()
    try:
        assert apparmor.confinement() == f"{apparmor.NAME} (enforce)\n"
        with guest.Session() as session:
            assert session.run("echo hello > file; cat file") == ("hello\n", 0)
    except Exception:
        apparmor.take_back()
        raise


def test_what_it_does_not_allow_is_denied_and_logged(_):
    apparmor.need()
    assert "guest" not in guest.sh(f"aa-exec -p {apparmor.NAME} -- /bin/cat /etc/hostname", check=False)
    assert {program for program, _ in apparmor.denials()} >= {"cat"}
