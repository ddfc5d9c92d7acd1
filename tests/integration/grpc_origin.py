"""A gRPC server without generated code: messages are bytes. Arguments: address:port, key, certificate.

/test.Echo/Unary answers with the call's authorization and the request, /test.Echo/Stream with three parts, /test.Echo/Both
with each message as it comes, /test.Echo/Fail with a status.
"""
import concurrent.futures
import pathlib
import sys

import grpc


def unary(request, context):
    fields = [value for name, value in context.invocation_metadata() if name == "authorization"]
    context.set_trailing_metadata((("x-fields", str(len(fields))),))
    return ",".join(fields).encode() + b" " + request


def stream(request, _):
    for number in range(3):
        yield request + str(number).encode()


def both(requests, _):
    for request in requests:
        yield request.upper()


def fail(_, context):
    context.abort(grpc.StatusCode.FAILED_PRECONDITION, "as asked for")


handlers = grpc.method_handlers_generic_handler("test.Echo", {
    "Unary": grpc.unary_unary_rpc_method_handler(unary),
    "Stream": grpc.unary_stream_rpc_method_handler(stream),
    "Both": grpc.stream_stream_rpc_method_handler(both),
    "Fail": grpc.unary_unary_rpc_method_handler(fail),
})
server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
server.add_generic_rpc_handlers((handlers,))
pair = (pathlib.Path(sys.argv[2]).read_bytes(), pathlib.Path(sys.argv[3]).read_bytes())
server.add_secure_port(sys.argv[1], grpc.ssl_server_credentials([pair]))
server.start()
server.wait_for_termination()
