#!/usr/bin/env python3
"""Makes daiv-sandbox.env.5 from the table that `daiv-sandbox settings --markdown` prints.

usage: daiv-sandbox settings --markdown | make_env_page.py > daiv-sandbox.env.5

A test compares the page with what this prints.
"""
import sys

HEAD = r""".\" Made by packaging/man/make_env_page.py.
.Dd November 30, 2026
.Dt DAIV-SANDBOX.ENV 5
.Os
.Sh NAME
.Nm daiv-sandbox.env
.Nd settings of daiv-sandbox
.Sh SYNOPSIS
.Pa /etc/daiv-sandbox/daiv-sandbox.env
.Sh DESCRIPTION
Lines of the form NAME=value; values may be quoted, lines that begin with
.Sq #
are comments.
A setting is looked for in the daemon's environment, in a file of its name below
.Ev CREDENTIALS_DIRECTORY
.Po
.Xr systemd.exec 5 ,
LoadCredential=
.Pc
and
.Pa /run/secrets ,
in
.Pa /etc/daiv-sandbox/credentials
(a file of its name without the prefix) and here; the first wins, and an empty value counts as unset.
An unknown name is a warning, a bad value stops the start.
.Pp
.Dl daiv-sandbox settings
.Pp
lists the values in effect and where they come from.
.Sh SETTINGS
.Bl -tag -width Ds"""

TAIL = """.El
.Sh FILES
.Pa /etc/daiv-sandbox/daiv-sandbox.env
.Sh SEE ALSO
.Xr daiv-sandbox 8"""


def escape(text):
    """Text as roff takes it: no escapes, and no line that begins like a request."""
    text = text.replace("\\", r"\e").replace("-", r"\-").replace("–", "none").replace("`", "")
    return r"\&" + text if text[:1] in (".", "'") else text


def settings(markdown):
    """(name, default, accepted, meaning) of each row."""
    for line in markdown.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if cells[0].startswith("`DAIV_SANDBOX_") and len(cells) == 4:
            yield cells


def page(markdown):
    lines = [HEAD]
    for name, default, accepted, meaning in settings(markdown):
        # Long lists may be broken after a comma.
        value = escape(default).replace(",", r",\:")
        lines += [f".It Ev {name.strip('`')}", escape(meaning), f"Accepted: {escape(accepted)}.", f"Default: {value}."]
    return "\n".join([*lines, TAIL, ""])


if __name__ == "__main__":
    sys.stdout.write(page(sys.stdin.read()))
