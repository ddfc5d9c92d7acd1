"""The databases: those of an earlier version are taken over, those of a later one are refused with words."""
import contextlib
import sqlite3

import pytest

from crash_trial import check_databases

SESSIONS, IMAGES = "state.db", "images.db"
TO_VERSION_1 = {
    SESSIONS: "ALTER TABLE session DROP COLUMN egress_port; PRAGMA user_version = 1",
    IMAGES: "ALTER TABLE layers DROP COLUMN hides_below; PRAGMA user_version = 1",
}


@contextlib.contextmanager
def stopped(daemon):
    """The daemon is down meanwhile; its files are the daemon's user's, and stay so."""
    daemon.stop()
    yield
    daemon.start()


def execute(daemon, name, script):
    with contextlib.closing(sqlite3.connect(daemon.state / "front" / name)) as database:
        database.executescript(script)


def test_databases_of_the_first_version_are_taken_over(own_daemon, busybox):
    daemon = own_daemon()
    session = daemon.api().create(busybox)
    daemon.api().run(session, "echo kept > keep")
    with stopped(daemon):
        for name, script in TO_VERSION_1.items():
            execute(daemon, name, script)
    assert daemon.api().output(session, "cat keep") == "kept\n"
    fresh = daemon.api().create(busybox)
    assert daemon.api().output(fresh, "echo made") == "made\n"
    check_databases(daemon)
    for one in (session, fresh):
        daemon.api().close(one, force=True)


@pytest.mark.parametrize("name", [SESSIONS, IMAGES])
def test_a_database_of_a_later_version_is_refused(own_daemon, name):
    daemon = own_daemon()
    daemon.stop()
    execute(daemon, name, "PRAGMA user_version = 99")
    with pytest.raises(RuntimeError, match="newer version of daiv-sandbox"):
        daemon.start()
    assert daemon.process.wait() == 1
    execute(daemon, name, "PRAGMA user_version = 2")
    daemon.start()
