"""Calls grpc_origin.py through the proxy that https_proxy names. Arguments: host:port, a file of roots. Prints what came."""
import pathlib
import queue
import sys

import grpc

SECONDS = 60
target, roots = sys.argv[1], pathlib.Path(sys.argv[2]).read_bytes()
with grpc.secure_channel(target, grpc.ssl_channel_credentials(roots)) as channel:
    unary = channel.unary_unary("/test.Echo/Unary")
    answer, call = unary.with_call(b"hello", metadata=(("authorization", "mine"),), timeout=SECONDS)
    print("unary", answer.decode(), dict(call.trailing_metadata()).get("x-fields"))
    print("stream", *[part.decode() for part in channel.unary_stream("/test.Echo/Stream")(b"part", timeout=SECONDS)])
    # The next message goes out when the last one's answer is here: nothing may be held back.
    messages = queue.Queue()
    answers = channel.stream_stream("/test.Echo/Both")(iter(messages.get, None), timeout=SECONDS)
    words = []
    for word in (b"one", b"two", b"three"):
        messages.put(word)
        words.append(next(answers).decode())
    messages.put(None)
    print("both", *words, len(list(answers)))
    try:
        channel.unary_unary("/test.Echo/Fail")(b"", timeout=SECONDS)
    except grpc.RpcError as error:
        print("fail", error.code().name, error.details())
    large = b"x" * 3_000_000
    print("large", len(unary(large, timeout=SECONDS)))
