"""The package: how it is built, what it wants, and what comes after it."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from debian_root import command_in  # noqa: E402: it lies in the folder above


def build(suite):
    """The path of the .deb, made of this checkout on SUITE."""
    done = subprocess.run(command_in(suite, [ROOT / "dev", "package"]), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"the package does not build:\n{done.stderr[-8000:]}")
    return pathlib.Path(done.stdout.split()[-1])


def lintian(suite, package):
    """Its exit code, and what the lintian of SUITE prints of PACKAGE."""
    # Of the distribution that the package is built for, lintian need not know.
    command = ["lintian", "--fail-on", "error", "--suppress-tags", "bad-distribution-in-changes-file", package]
    done = subprocess.run(command_in(suite, command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    return done.returncode, done.stdout


def dependencies(package):
    """The names of the packages that PACKAGE wants, of alternatives the first."""
    field = subprocess.run(["dpkg-deb", "--field", package, "Pre-Depends", "Depends"], stdout=subprocess.PIPE, text=True,
                           check=True).stdout
    names = (re.match(r"\s*([a-z0-9.+-]+)", part) for line in field.splitlines() for part in line.partition(":")[2].split(","))
    return sorted({match.group(1) for match in names if match})


def _rewrite(package, path, change):
    """Writes PACKAGE again to PATH, after CHANGE(its unpacked tree)."""
    tree = path.parent / f"{path.name}.tree"
    subprocess.run(["dpkg-deb", "--raw-extract", package, tree], check=True)
    change(tree)
    subprocess.run(["dpkg-deb", "-Znone", "--build", tree, path], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["rm", "-r", tree], check=True)


def _set_version(tree, version):
    control = tree / "DEBIAN" / "control"
    control.write_text(re.sub(r"^Version: .*$", f"Version: {version}", control.read_text(), flags=re.M))


def make_newer(package, path):
    """Writes PACKAGE again, as version 9, to PATH."""
    _rewrite(package, path, lambda tree: _set_version(tree, "9"))


def make_with_conffile(package, path, version, name, content):
    """Writes PACKAGE again, as VERSION and with a file NAME that dpkg asks about, to PATH."""
    def change(tree):
        _set_version(tree, version)
        (tree / name.lstrip("/")).write_text(content)
        with (tree / "DEBIAN" / "conffiles").open("a") as conffiles:
            conffiles.write(f"{name}\n")
    _rewrite(package, path, change)
