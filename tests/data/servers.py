"""A server of this machine."""

from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


@contextmanager
def served(answer, secured=None):
    """The port of a server that calls ``answer`` with each request; ``secured``: a TLS context."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        do_GET = do_HEAD = answer  # noqa: N815

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if secured is not None:
            server.socket = secured.wrap_socket(server.socket, server_side=True)
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server.server_port
        server.shutdown()


def respond(handler, code, body=b"", **headers):
    """Answer a request; names of headers have _ for -."""
    handler.send_response(code)
    for name, value in {"Content_Length": len(body), **headers}.items():
        handler.send_header(name.replace("_", "-"), str(value))
    handler.end_headers()
    if handler.command == "GET":
        handler.wfile.write(body)
