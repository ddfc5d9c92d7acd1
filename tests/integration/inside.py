"""Attempts from inside a sandbox, written in the image's own Python. Each prints one word: what happened.

A system call is made by number through libc's syscall(2), so that no wrapper's own check stands in its way.
"""
import textwrap

PRELUDE = """
import ctypes, errno, os, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(number, *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])
    return 'ok' if result >= 0 else errno.errorcode[ctypes.get_errno()]
def attempt(function, *arguments):
    try:
        function(*arguments)
        return 'ok'
    except OSError as error:
        return errno.errorcode[error.errno]
"""


def python(api, session, source):
    """The output of SOURCE, run by python3 in the session. It may use call() and attempt()."""
    program = PRELUDE + textwrap.dedent(source)
    return api.output(session, f"python3 - <<'END_OF_PROGRAM'\n{program}\nEND_OF_PROGRAM").strip()


def status_field(api, session, name):
    for line in api.output(session, "cat /proc/self/status").splitlines():
        if line.startswith(name + ":"):
            return line.split(":", 1)[1].strip()
    raise AssertionError(f"no {name} in /proc/self/status")
