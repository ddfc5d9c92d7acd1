"""What the profile denied to the front in all that was done before, in this boot of the guest."""
import apparmor


def test_nothing_was_denied_to_the_front(_):
    apparmor.need()
    assert apparmor.confinement() == f"{apparmor.NAME} (enforce)\n"
    assert [line for program, line in apparmor.denials() if program != "cat"] == []  # cat: of test_apparmor
