"""clang-tidy over many sources, several of a folder in one translation unit. Used by lint.py.

Most of what clang-tidy does for a source is to parse and to walk the headers of Asio, {fmt} and the standard library, once
more for each: seconds for some hundred lines of ours. So sources of one folder are included one after the other into a unit
and read together. They share an unnamed namespace then, so two that define the same name go into different units; a unit
that does not compile for all that is taken apart, and its sources are read one by one.

A unit without a finding is remembered by what went into it, and read again when that changes.
"""
import collections
import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import re
import resource
import shlex
import subprocess
import time

from check_dependencies import includes

ROOT = pathlib.Path(__file__).resolve().parent.parent
JOBS = os.cpu_count() or 1
TIDY = "clang-tidy-19"
CONFIG = ROOT / ".clang-tidy"
# With Asio a unit of so many takes half a gigabyte.
SOURCES_IN_A_UNIT = 12

Unit = collections.namedtuple("Unit", "path sources flags")

# What a source defines at the left margin, where clang-format keeps what is no member and no local: types and variables by
# name, functions by name where they are the file's own, else with the types of their parameters, for overloads.
DEFINED = (re.compile(r"^(?:struct|class|enum class|enum|union) (\w+)(?!\w|;)"),
           re.compile(r"^using (\w+) ="),
           re.compile(r"^[^(]*?(?<![\w:.>])([a-zA-Z_]\w*)(?:\[.*\])?(?:\{| =|;)"),
           re.compile(r"(?<![\w:.>])(main)\("))
FUNCTION = re.compile(r"(?<![\w:.>])(?!(?:INSTANTIATE_)?TEST)(\w+)(\([^)]*)")
PARAMETER_NAME = re.compile(r"(?<=[\w&*>] )\w+(?=,|$)|(?<=[&*])\w+(?=,|$)")
MARGIN = re.compile(r"(?!namespace|using namespace)\w")

FINDING = re.compile(r"^(\S+?):(\d+):(\d+): (?:warning|error): .* \[([\w.-]+)[\w.,-]*\]$")
NOT_COMPILED = "clang-diagnostic-error"


# --- which sources are read together ----------------------------------------------------------------------------------

def compiled(build):
    """Name below ROOT -> what clang-tidy needs of each command that compiles it: language, macros, where headers are."""
    flags = collections.defaultdict(list)
    for entry in json.loads((build / "compile_commands.json").read_text()):
        name = os.path.relpath(os.path.join(entry["directory"], entry["file"]), ROOT)
        flags[name] += [word for word in shlex.split(entry["command"]) if re.match(r"-std=|-D|-I(?!.*\.p$)|-pthread$", word)]
    return flags


def names(source):
    """What SOURCE defines that must not be defined twice in a unit."""
    found, own = set(), False
    for line in (ROOT / source).read_text().splitlines():
        own = (own or line == "namespace {") and line != "}  // namespace"
        if MARGIN.match(line):
            found.update(name for pattern in DEFINED for name in pattern.findall(line))
            found.update(name if own else name + PARAMETER_NAME.sub("", parameters)
                         for name, parameters in FUNCTION.findall(line))
    return found


def plan_units(sources, build):
    """Sources of one folder together, none beside another that defines what it defines. Keeps the order of folders."""
    flags = compiled(build)
    drafts = []  # (folder, names, sources)
    for source in sources:
        folder, defined = os.path.dirname(source), names(source)
        draft = next((draft for draft in drafts if draft[0] == folder and len(draft[2]) < SOURCES_IN_A_UNIT
                      and not draft[1] & defined), None)
        if draft is None:
            draft = (folder, set(), [])
            drafts.append(draft)
        draft[1].update(defined)
        draft[2].append(source)
    return [make_unit(build, draft[2], flags) for draft in drafts]


def make_unit(build, sources, flags):
    text = "".join(f'#include "{ROOT / source}"  // NOLINT(bugprone-suspicious-include)\n' for source in sources)
    name = f"{os.path.dirname(sources[0]).replace('/', '_')}_{hashlib.sha256(text.encode()).hexdigest()[:8]}.cpp"
    path = build / "tidy" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return Unit(path, sources, list(dict.fromkeys(flag for source in sources for flag in flags[source])))


# --- what is known already --------------------------------------------------------------------------------------------

@functools.cache
def included(path):
    """The files of ours that PATH includes."""
    quoted = [include.strip('"') for include in includes(path) if include[0] == '"']
    return [base / name for name in quoted for base in (ROOT, path.parent) if (base / name).is_file()]


def ingredients(sources):
    """SOURCES and the headers of ours that they include; those of the distribution are taken for constant."""
    seen, found = set(), [ROOT / source for source in sources]
    while found:
        path = found.pop()
        if path not in seen:
            seen.add(path)
            found += included(path)
    return sorted(seen)


@functools.cache
def version():
    return subprocess.run([TIDY, "--version"], stdout=subprocess.PIPE, check=True).stdout


def mark_of(unit):
    """The file that is there if UNIT, as it is now, was found clean."""
    key = hashlib.sha256(version() + CONFIG.read_bytes() + "\0".join(unit.flags).encode())
    for path in ingredients(unit.sources):
        key.update(str(path.relative_to(ROOT)).encode() + hashlib.sha256(path.read_bytes()).digest())
    return unit.path.parent / f"{key.hexdigest()}.clean"


# --- reading ----------------------------------------------------------------------------------------------------------

def parse(text, directory):
    """(file, line, column, check) -> the finding in full, with the notes and lines of code below it. Relative names are of
    DIRECTORY."""
    found, lines = {}, []
    for line in text.splitlines():
        match = FINDING.match(line)
        if match:
            path, row, column, check = match.groups()
            name = os.path.relpath(directory / path, ROOT)
            lines = found.setdefault((name, int(row), int(column), check), [])
            line = f"{name}{line.removeprefix(path)}"
        lines.append(line)
    return {key: "\n".join(lines) for key, lines in found.items()}


def read_once(unit):
    command = [TIDY, "--quiet", f"--config-file={CONFIG}", str(unit.path), "--", *unit.flags]
    directory = unit.path.parent.parent  # the compiler's, as the flags have it
    done = subprocess.run(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    found = parse(done.stdout, directory)
    if done.returncode != 0 and not found:
        raise RuntimeError(f"{TIDY} {unit.path}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return found


def read_unit(unit, build):
    """What clang-tidy finds in UNIT, by place and check."""
    mark = mark_of(unit)
    if mark.exists():
        return {}
    found = read_once(unit)
    if len(unit.sources) > 1 and any(check == NOT_COMPILED for *_, check in found):
        flags = compiled(build)
        found = {}
        for source in unit.sources:
            found |= read_unit(make_unit(build, [source], flags), build)
    if not found:
        mark.touch()
    return found


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def report(found, read, seconds, cpu):
    for _, text in sorted(found.items()):
        print(text)
    print(f"{'FAIL' if found else 'ok  '} clang-tidy ({read} sources, {len(found)} findings, {seconds:.0f} s, {cpu:.0f} s of CPU)")
    for check, count in collections.Counter(check for *_, check in found).most_common():
        print(f"     {count} {check}")


def run(sources, build, seconds):
    """Reads SOURCES and prints what is found; true if nothing is. Takes no new unit once SECONDS are over."""
    started, cpu = time.monotonic(), cpu_seconds()
    units = plan_units(sources, build)
    found, left = {}, []

    def visit(unit):
        return read_unit(unit, build) if time.monotonic() - started < seconds else None

    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for unit, findings in zip(units, pool.map(visit, units)):
            if findings is None:
                left += unit.sources
            else:
                found |= findings
    report(found, f"{len(sources) - len(left)} of {len(sources)}", time.monotonic() - started, cpu_seconds() - cpu)
    if left:
        print(f"     not reached within {seconds} s: {' '.join(left) if seconds else 'all of them'}")
    return not found
