"""Images as data: layers, OCI layouts, docker-archives, and their way into a registry. Standard library only.

An image is made from Python values, so that a test can also make one that no tool would: wrong media types, broken
layers, whiteouts out of order.
"""
import dataclasses
import gzip
import hashlib
import http.client
import io
import json
import pathlib
import subprocess
import tarfile
import urllib.parse

OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
OCI_CONFIG = "application/vnd.oci.image.config.v1+json"
OCI_LAYER_GZIP = "application/vnd.oci.image.layer.v1.tar+gzip"
OCI_LAYER = "application/vnd.oci.image.layer.v1.tar"
OCI_LAYER_ZSTD = "application/vnd.oci.image.layer.v1.tar+zstd"
DOCKER_LAYER_GZIP = "application/vnd.docker.image.rootfs.diff.tar.gzip"


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


# --- layers -----------------------------------------------------------------------------------------------------------

def entry(name, content=None, *, kind=None, mode=None, uid=0, gid=0, link="", device=(0, 0), mtime=1_700_000_000, pax=None):
    """One tar entry as (TarInfo, bytes). KIND is a tarfile type; by default a file where there is content, else a dir."""
    info = tarfile.TarInfo(name)
    data = content.encode() if isinstance(content, str) else content or b""
    info.type = kind or (tarfile.REGTYPE if content is not None else tarfile.DIRTYPE)
    info.mode = mode if mode is not None else (0o755 if info.type == tarfile.DIRTYPE else 0o644)
    info.uid, info.gid, info.mtime = uid, gid, mtime
    info.linkname = link
    info.devmajor, info.devminor = device
    info.size = len(data)
    info.pax_headers = dict(pax or {})
    return info, data


def symlink(name, target, **more):
    return entry(name, kind=tarfile.SYMTYPE, link=target, mode=0o777, **more)


def hardlink(name, target, **more):
    return entry(name, kind=tarfile.LNKTYPE, link=target, mode=0o644, **more)


def tar(*entries, format=tarfile.PAX_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as archive:
        for info, data in entries:
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


@dataclasses.dataclass
class Layer:
    """The bytes as stored, what they say they are, and the digest of the tar inside."""
    stored: bytes
    media_type: str = OCI_LAYER_GZIP
    diff_id: str = ""

    @classmethod
    def of(cls, *entries):
        return cls.from_tar(tar(*entries))

    @classmethod
    def from_tar(cls, plain):
        return cls(gzip.compress(plain, 6, mtime=0), OCI_LAYER_GZIP, digest(plain))


# --- images -----------------------------------------------------------------------------------------------------------

@dataclasses.dataclass
class Image:
    layers: list
    config: dict = dataclasses.field(default_factory=dict)  # the "config" member: Env, User, Entrypoint…
    architecture: str = "amd64"

    def config_bytes(self):
        return json.dumps({
            "architecture": self.architecture, "os": "linux", "config": self.config,
            "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in self.layers]},
            "history": [{"created_by": "test"} for _ in self.layers],
        }, sort_keys=True).encode()

    def manifest_bytes(self):
        config = self.config_bytes()
        return json.dumps({
            "schemaVersion": 2, "mediaType": OCI_MANIFEST,
            "config": {"mediaType": OCI_CONFIG, "digest": digest(config), "size": len(config)},
            "layers": [{"mediaType": layer.media_type, "digest": digest(layer.stored), "size": len(layer.stored)}
                       for layer in self.layers],
        }, sort_keys=True).encode()

    def blobs(self):
        yield self.config_bytes()
        for layer in self.layers:
            yield layer.stored


def save_oci_layout(image, directory, reference):
    """Writes an OCI layout directory whose index names the image REFERENCE."""
    directory = pathlib.Path(directory)
    blobs = directory / "blobs" / "sha256"
    blobs.mkdir(parents=True, exist_ok=True)
    manifest = image.manifest_bytes()
    for blob in [manifest, *image.blobs()]:
        (blobs / digest(blob)[7:]).write_bytes(blob)
    (directory / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    (directory / "index.json").write_text(json.dumps({
        "schemaVersion": 2, "mediaType": OCI_INDEX,
        "manifests": [{"mediaType": OCI_MANIFEST, "digest": digest(manifest), "size": len(manifest),
                       "annotations": {"org.opencontainers.image.ref.name": reference},
                       "platform": {"os": "linux", "architecture": image.architecture}}]}))
    return directory


def load_oci_layout(directory):
    directory = pathlib.Path(directory)
    blobs = directory / "blobs" / "sha256"
    index = json.loads((directory / "index.json").read_bytes())
    manifest = json.loads((blobs / index["manifests"][0]["digest"][7:]).read_bytes())
    config = json.loads((blobs / manifest["config"]["digest"][7:]).read_bytes())
    layers = [Layer((blobs / layer["digest"][7:]).read_bytes(), layer["mediaType"], diff_id)
              for layer, diff_id in zip(manifest["layers"], config["rootfs"]["diff_ids"], strict=True)]
    return Image(layers, config["config"], config["architecture"])


def save_docker_archive(image, path, reference):
    """Writes what `docker save REFERENCE` would: a tar with manifest.json, the configuration and the layers."""
    config = image.config_bytes()
    config_name = digest(config)[7:] + ".json"
    names = [f"{digest(layer.stored)[7:]}/layer.tar" for layer in image.layers]
    manifest = [{"Config": config_name, "RepoTags": [reference], "Layers": names}]
    with tarfile.open(path, "w") as archive:
        for name, data in [(config_name, config), *zip(names, (layer.stored for layer in image.layers)),
                           ("manifest.json", json.dumps(manifest).encode())]:
            info, _ = entry(name, data)
            archive.addfile(info, io.BytesIO(data))


def push(image, registry, repository, tag):
    """Pushes over plain HTTP (OCI distribution spec, Pushing). Blobs that are there already are not sent again."""
    connection = http.client.HTTPConnection(registry, timeout=120)

    def call(method, path, body=None, **headers):
        connection.request(method, path, body, headers)
        reply = connection.getresponse()
        reply.read()
        return reply

    for blob in image.blobs():
        if call("HEAD", f"/v2/{repository}/blobs/{digest(blob)}").status == 200:
            continue
        started = call("POST", f"/v2/{repository}/blobs/uploads/")
        target = urllib.parse.urlsplit(started.headers["Location"])
        query = "&".join(filter(None, [target.query, "digest=" + digest(blob)]))
        put = call("PUT", f"{target.path}?{query}", blob, **{"Content-Type": "application/octet-stream"})
        if put.status != 201:
            raise RuntimeError(f"push {repository}: blob: {put.status}")
    put = call("PUT", f"/v2/{repository}/manifests/{tag}", image.manifest_bytes(), **{"Content-Type": OCI_MANIFEST})
    if put.status != 201:
        raise RuntimeError(f"push {repository}:{tag}: manifest: {put.status}")
    return f"{registry}/{repository}:{tag}"


def compress(plain, program):
    """PLAIN through one of the machine's compressors, such as ["zstd", "-19"]."""
    return subprocess.run(program, input=plain, stdout=subprocess.PIPE, check=True).stdout
