"""Listens on loopback and passes each connection through a CONNECT of the proxy that https_proxy names, for programs that know
no proxy. Arguments: host:port to connect to, then a program's words in which {port} is the relay's; its exit code is ours."""
import os
import socket
import subprocess
import sys
import threading
import urllib.parse

proxy = urllib.parse.urlparse(os.environ["https_proxy"])


def pump(source, sink):
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def relay(client):
    upstream = socket.create_connection((proxy.hostname, proxy.port))
    upstream.sendall(f"CONNECT {sys.argv[1]} HTTP/1.1\r\nHost: {sys.argv[1]}\r\n\r\n".encode())
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += upstream.recv(1)
    threading.Thread(target=pump, args=(client, upstream), daemon=True).start()
    pump(upstream, client)


def accept(server):
    while True:
        client, _ = server.accept()
        threading.Thread(target=relay, args=(client,), daemon=True).start()


with socket.create_server(("127.0.0.1", 0)) as listener:
    threading.Thread(target=accept, args=(listener,), daemon=True).start()
    port = str(listener.getsockname()[1])
    sys.exit(subprocess.run([word.replace("{port}", port) for word in sys.argv[2:]], check=False).returncode)
