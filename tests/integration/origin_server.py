"""The web server of origins.py: run in its network namespace. Arguments: the address, the directory.

Answers "METHOD HOST PATH" and writes each request as a line of JSON; /git/ is git http-backend (CGI, RFC 3875).
"""
import http.server
import json
import os
import pathlib
import ssl
import subprocess
import sys
import threading

ADDRESS, DIRECTORY = sys.argv[1], pathlib.Path(sys.argv[2])
BACKEND = "/usr/lib/git-core/git-http-backend"
EVENT_SECONDS = 15
lock, next_event = threading.Lock(), threading.Semaphore(0)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def body(self):
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        data = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            data += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return data

    def handle_any(self):
        body = self.body()
        host = self.headers.get("Host", "").split(":")[0]
        with lock, (DIRECTORY / "requests").open("a") as log:
            log.write(json.dumps({"method": self.command, "path": self.path, "host": host, "headers": self.headers.items(),
                                  "size": len(body)}) + "\n")
        if self.path.startswith("/git/"):
            return self.git(body)
        if self.path.startswith("/events"):
            return self.events()
        if self.path.startswith("/next"):
            next_event.release()
        self.answer(200, [("Content-Type", "text/plain")], f"{self.command} {host} {self.path}\n".encode())

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = handle_any

    def answer(self, status, headers, body):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def events(self):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number in range(3):
            self.wfile.write(b"2\r\n%d\n\r\n" % number)
            self.wfile.flush()
            # An event that is held back keeps its reader from asking for the next: the answer breaks off.
            if not next_event.acquire(timeout=EVENT_SECONDS):
                self.close_connection = True
                return
        self.wfile.write(b"0\r\n\r\n")

    def git(self, body):
        if self.headers.get("Authorization") is None:
            return self.answer(401, [("WWW-Authenticate", "Basic realm=git")], b"")
        path, _, query = self.path.removeprefix("/git").partition("?")
        environment = {"PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(DIRECTORY / "git"), "GIT_HTTP_EXPORT_ALL": "1",
                       "PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": self.command, "REMOTE_USER": "t",
                       "CONTENT_TYPE": self.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(len(body)),
                       "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                       "GIT_PROTOCOL": self.headers.get("Git-Protocol", "")}
        done = subprocess.run([BACKEND], input=body, env=environment, stdout=subprocess.PIPE, check=True)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = [tuple(line.split(": ", 1)) for line in head.decode().split("\r\n")]
        status = next((int(value.split()[0]) for name, value in fields if name == "Status"), 200)
        self.answer(status, [field for field in fields if field[0] != "Status"], content)


def serve(port, context=None):
    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 256

        def finish_request(self, request, client):
            if context is not None:
                request.settimeout(30)
                request = context.wrap_socket(request, server_side=True)
            super().finish_request(request, client)

        def handle_error(self, *_):
            pass

    server = Server((ADDRESS, port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()


tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
tls.load_cert_chain(DIRECTORY / "leaf.pem", DIRECTORY / "key.pem")
serve(80)
serve(8080)
serve(443, tls)
print("ready", flush=True)
threading.Event().wait()
