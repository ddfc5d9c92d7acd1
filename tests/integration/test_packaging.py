"""Man pages, completion and dashboard say what the program says."""
import json
import pathlib
import re
import subprocess
import sys

import pytest

import daemon as daemons

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
BASH_COMPLETION = PACKAGING / "completion" / "daiv-sandbox.bash"
ZSH_COMPLETION = PACKAGING / "completion" / "_daiv-sandbox"
NESTED = {"ca": {"init", "repair", "check"}, "egress": {"log"}}


def told(build, *arguments):
    return subprocess.run([build / "cli" / "daiv-sandbox", *arguments], stdout=subprocess.PIPE, text=True, check=True).stdout


def commands_in(text):
    """Of a help text, what stands below "Subcommands:"."""
    listed = re.split(r"^(?:Subcommands|SUBCOMMANDS):\n", text, flags=re.M)
    return set(re.findall(r"^  ([a-z]+) ", listed[1], re.M)) if len(listed) > 1 else set()


def options_in(text):
    return set(re.findall(r"(--[a-z-]+)", text)) - {"--help", "--"}


@pytest.fixture(scope="module")
def commands(build):
    """{command: its options}; those of NESTED are what its own commands take."""
    found = {command: options_in(told(build, command, "--help")) for command in commands_in(told(build, "--help"))}
    assert {"serve", "broker", "exec", "ca"} <= set(found)
    for command, inner in NESTED.items():
        assert commands_in(told(build, command, "--help")) == inner
        found[command] = set().union(*(options_in(told(build, command, one, "--help")) for one in inner))
    return found


def test_the_manual_has_every_command_and_option_and_no_other(commands):
    page = subprocess.run(["mandoc", "-T", "ascii", PACKAGING / "man" / "daiv-sandbox.8"], stdout=subprocess.PIPE, text=True,
                          check=True).stdout
    page = re.sub(r".\x08", "", page)
    described = re.findall(r"^     ([a-z]+)(?: .*)?$", page, re.M)
    assert set(commands) <= set(described), set(commands) - set(described)
    everywhere = set().union(*commands.values())
    assert options_in(page) == everywhere


def test_the_manual_of_settings_is_made_from_the_table(build):
    made = subprocess.run([sys.executable, PACKAGING / "man" / "make_env_page.py"], input=told(build, "settings", "--markdown"),
                          stdout=subprocess.PIPE, text=True, check=True).stdout
    assert (PACKAGING / "man" / "daiv-sandbox.env.5").read_text() == made
    assert set(re.findall(r"^\.It Ev (\w+)$", made, re.M)) == set(re.findall(r"^\| `(DAIV_SANDBOX_\w+)`", told(build, "settings", "--markdown"), re.M))


@pytest.mark.parametrize("page", ["daiv-sandbox.8", "daiv-sandbox.env.5"])
def test_a_page_has_no_fault(page):
    done = subprocess.run(["mandoc", "-T", "lint", "-W", "error", PACKAGING / "man" / page], stdout=subprocess.PIPE, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def completed(*words):
    """What bash offers for the last of WORDS."""
    script = f'source "{BASH_COMPLETION}"; COMP_WORDS=(daiv-sandbox "$@"); COMP_CWORD=$#; _daiv_sandbox; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "--norc", "-c", script, "bash", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={"PATH": "/usr/bin:/bin"}, timeout=60)
    assert done.stderr == ""
    return set(done.stdout.split())


def test_bash_completes_every_command_and_its_options(commands):
    assert completed("") - {"--help"} == set(commands)
    assert completed("se") == {"serve", "settings"}
    for command, options in commands.items():
        words = [command, *sorted(NESTED.get(command, set()))[:1], "--"]
        assert completed(*words) - {"--help"} == options, command
    for command, inner in NESTED.items():
        assert completed(command, "") - {"--help"} == inner


def test_zsh_reads_its_completion_which_has_every_command(commands):
    assert subprocess.run(["zsh", "-n", ZSH_COMPLETION]).returncode == 0
    text = ZSH_COMPLETION.read_text()
    assert set(re.findall(r"^    '([a-z]+):", text, re.M)) == set(commands)
    assert options_in(text.replace("--json 2>", "")) == set().union(*commands.values())


def test_the_dashboard_asks_for_metrics_that_there_are(daemon):
    daemon.api().raw("GET", "/-/version/")
    exposed = daemons.Api(daemon.port, prefix="").raw("GET", "/-/metrics")[1].decode()
    declared = dict(re.findall(r"^# TYPE (\w+) (\w+)$", exposed, re.M))
    dashboard = json.loads((PACKAGING / "grafana" / "daiv-sandbox.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked = set(re.findall(r"daiv_sandbox_\w+", " ".join(queries)))
    assert asked
    for name in asked:
        family = name.removesuffix("_bucket")
        assert declared.get(family) == ("histogram" if name.endswith("_bucket") else declared.get(name)), name
        assert family in declared, name
