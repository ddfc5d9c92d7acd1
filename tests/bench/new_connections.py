"""Times whole new TLS connections, each with one request, and prints their p50 in ms: ADDRESS NAME CA COUNT."""
import socket
import ssl
import statistics
import sys
import time

address, name, ca, count = sys.argv[1:]
context = ssl.create_default_context(cafile=ca)
request = f"GET /small HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n".encode()


def once():
    started = time.perf_counter()
    with socket.create_connection((address, 443), 10) as plain, context.wrap_socket(plain, server_hostname=name) as tls:
        tls.sendall(request)
        if not tls.recv(4096).startswith(b"HTTP/1.1 200"):
            raise RuntimeError("the origin does not answer 200")
    return (time.perf_counter() - started) * 1e3


print(statistics.median(once() for _ in range(int(count))))
