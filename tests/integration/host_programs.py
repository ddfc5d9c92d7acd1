"""Programs of the host, with the libraries they were linked against, as an image: a peer that would take a distribution of
its own to bring (Java, Node) needs no mirror, and fits the host's C library whatever that is."""
import io
import pathlib
import re
import subprocess
import tarfile

import images
import oci


def _libraries(file):
    """The shared libraries of an ELF file by the names that it is found under, the loader's included."""
    done = subprocess.run(["ldd", file], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return re.findall(r"(?:=> )?(/\S+) \(0x", done.stdout)


def image(*files, links=()):
    """busybox, these files of the host at their paths, what those that are ELF link to, and LINKS (path, target)."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", dereference=True) as archive:
        wanted = {str(file) for file in files}
        programs = [file for file in sorted(wanted) if pathlib.Path(file).read_bytes()[:4] == b"\x7fELF"]
        for file in sorted(wanted | {library for program in programs for library in _libraries(program)}):
            archive.add(file, file.lstrip("/"), recursive=False)
        for path, target in links:
            info, _ = oci.symlink(path.lstrip("/"), str(target))
            archive.addfile(info)
    plain = packed.getvalue()
    return images.busybox(None, oci.Layer(oci.compress(plain, ["zstd", "-1", "-q"]), oci.OCI_LAYER_ZSTD, oci.digest(plain)))
