"""A small registry that misbehaves on request: cuts blobs, answers ranges wrongly, asks for tokens in odd ways."""
import base64
import http.server
import json
import threading
import urllib.parse

import oci

CUT = 20_000  # byte at which a cut blob ends


class FakeRegistry:
    """Serves IMAGE as repository `app` on a loopback port. MOOD names what is wrong with the big blob.

    `requests` has every request as (method, path, headers), `sent` the bytes of the big blob that were sent.
    `challenge(handler)` gives WWW-Authenticate values where a request is not authorised, or None.
    """

    def __init__(self, image, mood="", challenge=None, token=None):
        self.image, self.mood, self.challenge, self.token = image, mood, challenge, token
        self.blobs = {oci.digest(blob): blob for blob in image.blobs()}
        self.manifest, self.manifest_type = image.manifest_bytes(), oci.OCI_MANIFEST
        self.manifests = {}  # others, by digest: of images
        self.big = max(self.blobs, key=lambda name: len(self.blobs[name]))
        self.requests, self.sent, self.tries = [], 0, 0
        self.lock, self.stopping = threading.Lock(), threading.Event()
        handler = type("Handler", (_Handler,), {"registry": self})
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        self.address = f"127.0.0.1:{self.server.server_address[1]}"
        self.reference = f"{self.address}/app:latest"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def asked(self, part):
        return [request for request in self.requests if part in request[1]]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.server.shutdown()
        self.server.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    registry = None

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            for one in value if isinstance(value, list) else [value]:
                self.send_header(name.replace("_", "-"), one)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_POST(self):
        self.read_body()
        self.handle_any()

    def read_body(self):
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def do_HEAD(self):
        self.handle_any()

    def do_GET(self):
        self.handle_any()

    def handle_any(self):
        registry = self.registry
        with registry.lock:
            registry.requests.append((self.command, self.path, dict(self.headers)))
        path = urllib.parse.urlsplit(self.path).path
        if path.startswith("/token"):
            status, value = registry.token(self)
            return self.answer(status, json.dumps(value).encode(), Content_Type="application/json")
        challenge = registry.challenge(self) if registry.challenge else None
        if challenge is not None:
            return self.answer(401, b'{"errors":[{"code":"UNAUTHORIZED"}]}', WWW_Authenticate=challenge)
        if path == "/v2/":
            return self.answer(200, b"{}")
        if "/manifests/" in path:
            other = registry.manifests.get(path.rpartition("/")[2])
            manifest, kind = (other, oci.OCI_MANIFEST) if other else (registry.manifest, registry.manifest_type)
            return self.answer(200, manifest, Content_Type=kind, Docker_Content_Digest=oci.digest(manifest))
        name = path.rpartition("/")[2]
        if name not in registry.blobs:
            return self.answer(404, b'{"errors":[{"code":"BLOB_UNKNOWN"}]}')
        if name == registry.big and registry.mood and self.command == "GET":
            return self.moody(registry.blobs[name])
        return self.answer(200, registry.blobs[name], Content_Type="application/octet-stream")

    # --- the big blob ---

    def part(self, data, status, length=None, **headers):
        """Sends DATA under a length that it may not keep, and closes where it does not."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data) if length is None else length))
        self.end_headers()
        self.wfile.write(data)
        with self.registry.lock:
            self.registry.sent += len(data)
        if length is not None and length != len(data):
            self.close_connection = True

    def moody(self, blob):
        registry, size = self.registry, len(blob)
        with registry.lock:
            registry.tries += 1
            number = registry.tries
        asked = self.headers.get("Range")
        if number == 1:
            return self.part(blob[:CUT], 200, size, ETag='"one"')
        start = int(asked.removeprefix("bytes=").split("-")[0]) if asked else 0
        content_range = f"bytes {start}-{size - 1}/{size}"
        if registry.mood == "right":
            return self.part(blob[start:], 206, Content_Range=content_range) if asked else self.part(blob, 200)
        if registry.mood == "wrong start" and asked:
            return self.part(blob[start - 7:], 206, Content_Range=f"bytes {start - 7}-{size - 1}/{size}")
        if registry.mood == "full body":
            return self.part(blob, 200)
        if registry.mood == "416" and asked:
            return self.answer(416, Content_Range=f"bytes */{size}")
        if registry.mood == "no Content-Range" and asked:
            return self.part(blob[start:], 206)
        if registry.mood == "500 twice" and number <= 3:
            return self.answer(500, b"{}")
        if registry.mood == "other ETag" and asked:
            return self.part(blob[start:], 206, Content_Range=content_range, ETag='"two"')
        if registry.mood == "stalls":
            self.send_response(206 if asked else 200)
            self.send_header("Content-Length", str(size))
            self.end_headers()
            registry.stopping.wait(120)
            self.close_connection = True
            return None
        if asked and registry.mood == "500 twice":
            return self.part(blob[start:], 206, Content_Range=content_range)
        return self.part(blob, 200)


def basic(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
