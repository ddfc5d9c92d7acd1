#!/usr/bin/env python3
"""Checks the dependency table between folders, and that the broker links no parser of foreign bytes.

usage: check_dependencies.py [--build DIR]

Reads the #include lines of the sources (every include of ours names its folder) and, with --build, what the built
programs link. Prints one line per check, "ok NAME" or "FAIL NAME: why"; exit code 1 if any failed.
"""
import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Folder -> folders it may include besides itself. A value that ends in .hpp is that one header and no other.
TABLE = {
    "os": set(),
    "wire": {"os"},
    "images": {"os", "wire"},
    "netns": {"os", "wire"},
    "agent": {"os", "wire"},
    "proxy": {"os", "wire"},
    "sentry": {"os", "wire"},
    "runtime": {"os", "wire", "netns"},
    # Of the agent, the protocol alone: what the agent does runs in a sandbox and nowhere else.
    "sessions": {"os", "wire", "runtime", "images", "proxy", "agent/protocol.hpp", "agent/fs_protocol.hpp",
                 "agent/fs_path.hpp"},
    "api": {"os", "wire", "sessions"},
    "cli": {"os", "wire", "images", "netns", "agent", "proxy", "sentry", "runtime", "sessions", "api"},
}

# Headers that stay out of public ones: they cost build time and tie callers to a library.
PRIVATE_LIBRARIES = re.compile(r"<(netlink/|archive|openssl/|seccomp|boost/beast|curl/|sqlite3|toml\+\+|isa-l|nghttp2/)")
# Public headers may name only the forward declarations of the JSON library.
JSON = re.compile(r"<nlohmann/json\.hpp>")

# Sources of the broker's program, which holds privilege: these includes would bring in a parser of foreign bytes.
FOREIGN_PARSERS = re.compile(r"<(nlohmann/|boost/beast|boost/asio|archive|openssl/|curl/|toml\+\+|isa-l|zstd|zlib|sqlite3|CLI/)")
PARSER_LIBRARIES = re.compile(
    r"^lib(archive|curl|ssl|crypto|z|zstd|lzma|bz2|lz4|isal|xml2|sqlite3|pcre2|nghttp2|boost_\w+|json\w*|hiredis|nettle)\b")
PARSER_SYMBOLS = re.compile(r"nlohmann|boost::beast|boost::asio|archive_read_|SSL_read|sqlite3_|toml::|isal_inflate|curl_easy")

INCLUDE = re.compile(r'^\s*#\s*include\s+(["<][^">]+[">])', re.M)


def sources(folder):
    base = ROOT / folder
    return sorted(path for path in base.rglob("*") if path.suffix in (".hpp", ".cpp"))


def includes(path):
    return INCLUDE.findall(path.read_text())


def ours(include):
    """The path of an include of this project, or None for anybody else's."""
    path = include.strip('"<>')
    return path if include[0] == '"' and path.split("/")[0] in TABLE else None


def folder_faults(folder):
    for source in sources(folder):
        name = source.relative_to(ROOT)
        for include in includes(source):
            path = ours(include)
            if path is None:
                if include[0] == '"':
                    yield f"{name} includes {include}: an include of ours names its folder"
                continue
            other = path.split("/")[0]
            if other == folder:
                continue
            if other not in TABLE[folder] and path not in TABLE[folder]:
                yield f"{name} includes {path}: {folder} may not use {other}"
            if "/detail/" in path:
                yield f"{name} includes {path}: detail/ is private to {other}"


def public_header_faults():
    for folder in TABLE:
        for header in sorted((ROOT / folder).glob("*.hpp")):
            for include in includes(header):
                if PRIVATE_LIBRARIES.match(include) or JSON.match(include):
                    yield f"{header.relative_to(ROOT)} includes {include}: keep it out of public headers"


def broker_source_faults():
    """The folders that the broker's program is made of, and no others, hold no parser of foreign bytes."""
    for folder in ("os", "wire", "netns", "runtime"):
        for source in sources(folder):
            for include in includes(source):
                if FOREIGN_PARSERS.match(include):
                    yield f"{source.relative_to(ROOT)} includes {include}"


def program(build, name):
    found = [path for path in pathlib.Path(build).rglob(name) if path.is_file()]
    return found[0] if found else None


def run(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def broker_library_faults(build):
    broker = program(build, "daiv-sandbox-broker")
    if broker is None:
        yield f"no daiv-sandbox-broker in {build}"
        return
    # What ldd lists is transitive: a library that loads a parser counts too.
    for line in run("ldd", str(broker)).splitlines():
        library = line.split()[0] if line.split() else ""
        if PARSER_LIBRARIES.match(library):
            yield f"links {library}"


def broker_symbol_faults(build):
    broker = program(build, "daiv-sandbox-broker")
    if broker is None:
        yield f"no daiv-sandbox-broker in {build}"
        return
    # A stripped or hidden symbol would be missed here: the include check above is the one that cannot be.
    symbols = run("nm", "--demangle", str(broker)) + run("nm", "--demangle", "--dynamic", str(broker))
    seen = {match.group(0) for match in PARSER_SYMBOLS.finditer(symbols)}
    yield from (f"contains {name}" for name in sorted(seen))


def agent_faults(build):
    agent = program(build, "daiv-sandbox-agent")
    if agent is None:
        yield f"no daiv-sandbox-agent in {build}"
        return
    # It runs from a memfd in any image: no interpreter, no library to be found there.
    if "INTERP" in run("readelf", "--program-headers", "--wide", str(agent)):
        yield "is not static"


PROGRAMS = ("daiv-sandbox", "daiv-sandbox-broker", "daiv-sandbox-hold", "daiv-sandbox-unpack", "daiv-sandbox-agent")
# The variables by which a test build is told to lack a defence or to crash.
TEST_SWITCHES = (b"DAIV_SANDBOX_ATTACK_WITHOUT", b"DAIV_SANDBOX_CRASH_AT")


def of_each_program(check):
    """A check of a build tree from one of a program's file."""
    def faults(build):
        for name in PROGRAMS:
            binary = program(build, name)
            yield from (f"{name}: {fault}" for fault in check(binary)) if binary else [f"no {name} in {build}"]
    return faults


@of_each_program
def switch_faults(binary):
    held = binary.read_bytes()
    yield from (f"knows {switch.decode()}" for switch in TEST_SWITCHES if switch in held)


@of_each_program
def hardening_faults(binary):
    headers = run("readelf", "--file-header", "--program-headers", "--dynamic", "--wide", str(binary))
    if not re.search(r"Type:\s+DYN", headers):
        yield "not position independent"
    if "GNU_RELRO" not in headers:
        yield "no RELRO"
    if not re.search(r"FLAGS.*(BIND_NOW|NOW)", headers):
        yield "lazy binding"
    if re.search(r"GNU_STACK.*RWE", headers):
        yield "executable stack"


def checks(build):
    for folder in TABLE:
        yield f"includes of {folder}/", folder_faults(folder)
    yield "public headers without libraries", public_header_faults()
    yield "broker's sources without parsers", broker_source_faults()
    if build:
        yield "broker's libraries without parsers", broker_library_faults(build)
        yield "broker's symbols without parsers", broker_symbol_faults(build)
        yield "agent is static", agent_faults(build)
        yield "programs are hardened", hardening_faults(build)
        yield "programs know no switches of test builds", switch_faults(build)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--build")
    build = options.parse_args().build
    failed = False
    for name, faults in checks(build):
        found = list(faults)
        failed |= bool(found)
        for fault in found:
            print(f"FAIL {name}: {fault}")
        if not found:
            print(f"ok {name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
