"""A name server, run in the network namespace of hidden_origins.py. Arguments: its address, the directory.

Answers A for the names of the file "names" (JSON, read for each question), nothing for other types, NXDOMAIN for other
names. Names that begin with "tcp." are answered over TCP alone (RFC 1035 section 4.2.1, TC). What was asked is in "asked".
"""
import ipaddress
import json
import pathlib
import socketserver
import struct
import sys
import threading

ADDRESS, DIRECTORY = sys.argv[1], pathlib.Path(sys.argv[2])
A, NO_ERROR, NAME_ERROR, TRUNCATED = 1, 0, 3, 0x0200
TIME_TO_LIVE = 300
lock = threading.Lock()


def name_of(query):
    labels, place = [], 12
    while size := query[place]:
        labels.append(query[place + 1:place + 1 + size].decode())
        place += 1 + size
    return ".".join(labels).lower(), place + 5


def reply(query, transport):
    name, end = name_of(query)
    kind = struct.unpack("!H", query[end - 4:end - 2])[0]
    with lock, (DIRECTORY / "asked").open("a") as asked:
        asked.write(f"{transport} {name}\n")
    address = json.loads((DIRECTORY / "names").read_text()).get(name)
    truncated = TRUNCATED if name.startswith("tcp.") and transport == "udp" else 0
    records = b""
    if address and kind == A and not truncated:
        records = b"\xc0\x0c" + struct.pack("!HHIH", A, 1, TIME_TO_LIVE, 4) + ipaddress.ip_address(address).packed
    code = NO_ERROR if address else NAME_ERROR
    return query[:2] + struct.pack("!HHHHH", 0x8180 | truncated | code, 1, 1 if records else 0, 0, 0) + query[12:end] + records


class Datagrams(socketserver.BaseRequestHandler):
    def handle(self):
        query, server = self.request
        server.sendto(reply(query, "udp"), self.client_address)


class Streams(socketserver.StreamRequestHandler):
    def handle(self):
        while size := self.rfile.read(2):
            answer = reply(self.rfile.read(struct.unpack("!H", size)[0]), "tcp")
            self.wfile.write(struct.pack("!H", len(answer)) + answer)


class StreamServer(socketserver.ThreadingTCPServer):
    daemon_threads = True


for server in (socketserver.ThreadingUDPServer((ADDRESS, 53), Datagrams), StreamServer((ADDRESS, 53), Streams)):
    threading.Thread(target=server.serve_forever, daemon=True).start()
print("ready", flush=True)
threading.Event().wait()
