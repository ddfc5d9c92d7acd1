"""How exposed the units are, as docs/operations.md states it."""
import pathlib
import re

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs" / "operations.md"


def stated():
    """{unit: score of systemd-analyze security}"""
    return dict(re.findall(r"^\| `(daiv-sandbox[\w-]*\.service)` \| ([\d.]+) \|", DOCUMENT.read_text(), re.M))


def score(analysis):
    """The score that ANALYSIS, the output of systemd-analyze security UNIT, ends with."""
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", analysis)
    assert found, analysis
    return found.group(1)
