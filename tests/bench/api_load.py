#!/usr/bin/env python3
"""Small file operations at a steady rate over many keep-alive connections: latency at that rate.

usage: api_load.py BASE_URL API_KEY BASE_IMAGE [--connections 32] [--rate 1000] [--seconds 10] [--json OUT]

Standard library only. Each connection has a session of its own; one thread sends on all of them without waiting for answers
of others (one request in flight a connection), and a request's latency counts from when it was due, so that a server which
falls behind is seen to. Prints p50, p95, p99 and max for each operation, and exits with 1 where the rate was not held or p99
is above --p99.
"""
import argparse
import base64
import json
import selectors
import socket
import sys
import time
import urllib.parse

OPERATIONS = ("write", "read", "edit", "ls", "delete")


class Connection:
    """One client: a socket, a session, and what comes next in its cycle of operations."""

    def __init__(self, base, key, image):
        url = urllib.parse.urlsplit(base)
        self.host, self.prefix, self.key = url.netloc, url.path.rstrip("/"), key
        self.address = (url.hostname, url.port or 80)
        self.connect()
        self.turn, self.due, self.operation = 0, None, None
        self.session = json.loads(self.call("POST", "/session/", {"base_image": image}))["session_id"]

    def connect(self):
        self.socket = socket.create_connection(self.address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = b""

    def close(self):
        """Removes the session, on a connection of its own: the other may be in the middle of an answer."""
        self.socket.close()
        self.connect()
        self.operation = "close"
        self.call("DELETE", f"/session/{self.session}/?force=true")
        self.socket.close()

    def encode(self, method, path, value=None):
        body = b"" if value is None else json.dumps(value).encode()
        return (f"{method} {self.prefix}{path} HTTP/1.1\r\nHost: {self.host}\r\nX-API-Key: {self.key}\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body

    def call(self, method, path, value=None):
        self.socket.sendall(self.encode(method, path, value))
        while (answer := self.take()) is None:
            pass
        return answer

    def send_next(self, due):
        number, self.operation = divmod(self.turn, len(OPERATIONS))
        self.operation = OPERATIONS[self.operation]
        path = f"/workspace/tmp/load-{number % 8}"
        body = {"write": {"path": path, "content": base64.b64encode(b"MARK\n" + b"x" * 1019).decode()},
                "read": {"path": path}, "edit": {"path": path, "old": "MARK", "new": "DONE"},
                "ls": {"path": "/workspace/tmp"}, "delete": {"path": path}}[self.operation]
        self.turn, self.due = self.turn + 1, due
        self.socket.sendall(self.encode("POST", f"/session/{self.session}/fs/{self.operation}", body))

    def take(self):
        """Reads once; the answer's body when it is whole, else None."""
        piece = self.socket.recv(65536)
        if not piece:
            raise SystemExit("the server closed a connection")
        self.received += piece
        head, found, rest = self.received.partition(b"\r\n\r\n")
        if not found:
            return None
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        size = int(fields.get(b"content-length", b"0"))
        if len(rest) < size:
            return None
        status = int(head.split(b" ", 2)[1])
        body, self.received = rest[:size], rest[size:]
        if status >= 400 or (body and json.loads(body).get("error")):
            raise SystemExit(f"{self.operation}: {status} {body[:300]!r}")
        return body


def load(connections, rate, seconds):
    """{operation: [milliseconds]} and the rate that was reached."""
    latencies = {operation: [] for operation in OPERATIONS}
    selector = selectors.DefaultSelector()
    for connection in connections:
        selector.register(connection.socket, selectors.EVENT_READ, connection)
    idle, sent, done = list(connections), 0, 0
    begin = time.perf_counter()
    total = int(rate * seconds)
    while done < total:
        now = time.perf_counter()
        while idle and sent < total and begin + sent / rate <= now:
            idle.pop(0).send_next(begin + sent / rate)
            sent += 1
        next_due = begin + sent / rate - time.perf_counter()
        for key, _ in selector.select(max(next_due, 0) if idle and sent < total else None):
            connection = key.data
            if connection.take() is not None:
                latencies[connection.operation].append((time.perf_counter() - connection.due) * 1e3)
                idle.append(connection)
                done += 1
    return latencies, done / (time.perf_counter() - begin)


def quantile(samples, part):
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] if ordered else 0.0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base")
    parser.add_argument("key")
    parser.add_argument("image")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--rate", type=float, default=1000, help="requests a second, all connections together")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--p99", type=float, default=50, help="ms")
    parser.add_argument("--json")
    options = parser.parse_args()
    if not 0 < options.connections <= 1024 or not 0 < options.seconds <= 600:
        parser.error("at most 1024 connections and 600 seconds")
    connections = [Connection(options.base, options.key, options.image) for _ in range(options.connections)]
    try:
        latencies, reached = load(connections, options.rate, options.seconds)
    finally:
        for connection in connections:
            connection.close()
    everything = [sample for samples in latencies.values() for sample in samples]
    rows = {name: {"n": len(samples), **{f"p{part}": quantile(samples, part / 100) for part in (50, 95, 99)},
                   "max": max(samples, default=0.0)} for name, samples in {**latencies, "all": everything}.items()}
    for name, row in rows.items():
        figures = "  ".join(f"{part} {row[part]:8.2f}" for part in ("p50", "p95", "p99", "max"))
        print(f"{name:8s} n={row['n']:6d}  {figures} ms")
    print(f"rate     {reached:.0f}/s of {options.rate:.0f}/s over {options.connections} connections")
    if options.json:
        with open(options.json, "w") as out:
            json.dump({"rate": reached, "rows": rows}, out, indent=1)
    return 0 if reached >= 0.98 * options.rate and rows["all"]["p99"] <= options.p99 else 1


if __name__ == "__main__":
    sys.exit(main())
