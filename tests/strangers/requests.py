"""A table of hostile requests: what a client sends, byte by byte."""

import json

HOST = b"Host: localhost\r\n"
TYPE = b"Content-Type: application/json\r\n"


def post(
    body: bytes, *headers: bytes, length: int | None = None, path: bytes = b"/predict"
) -> bytes:
    size = len(body) if length is None else length
    announced = b"Content-Length: %d\r\n" % size
    more = b"".join(one + b"\r\n" for one in headers)
    return b"POST " + path + b" HTTP/1.1\r\n" + HOST + TYPE + announced + more + b"\r\n" + body


def get(
    path: bytes = b"/health", *headers: bytes, host: bytes = HOST, version: bytes = b"1.1"
) -> bytes:
    more = b"".join(one + b"\r\n" for one in headers)
    return b"GET " + path + b" HTTP/" + version + b"\r\n" + host + more + b"\r\n"


def chunked(*parts: bytes) -> bytes:
    head = b"POST /predict HTTP/1.1\r\n" + HOST + TYPE + b"Transfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(parts)


def says(value: object) -> bytes:
    return post(json.dumps(value).encode())


REQUESTS: dict[str, bytes] = {
    "nothing but lines": b"\r\n" * 10_000 + b"x\r\n\r\n",
    "a handshake of TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "zeros": b"\0" * 1000 + b"\r\n\r\n",
    "one long line": b"A" * 100_000 + b"\r\n\r\n",
    "a long path": get(b"/" + b"a" * 100_000),
    "a path of other characters": get(b"/\xff\xfe"),
    "a path out of the folder": get(b"/../../../../etc/passwd"),
    "an encoded path": get(b"/%2e%2e/%2e%2e/etc/passwd%00"),
    "a path of a server": get(b"http://169.254.169.254/latest"),
    "a tunnel": b"CONNECT 127.0.0.1:22 HTTP/1.1\r\n" + HOST + b"\r\n",
    "a long header": get(b"/health", b"X: " + b"a" * 100_000),
    "many headers": get(b"/health", *[b"X: a"] * 10_000),
    "a header of two lines": get(b"/health", b"X: a\r\n b"),
    "a header without a name": get(b"/health", b": a"),
    "no host": get(host=b""),
    "two hosts": get(host=HOST + HOST),
    "another host": get(host=b"Host: example.org\r\n"),
    "a host that is none": get(host=b"Host: [::1\r\n"),
    "a host with a name": get(host=b"Host: localhost@example.org\r\n"),
    "version 0.9": b"GET /\r\n\r\n",
    "version 2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "version 7": get(version=b"7.0"),
    "an unknown method": b"EVIL /health HTTP/1.1\r\n" + HOST + b"\r\n",
    "a method of 1,000 letters": b"E" * 1000 + b" /health HTTP/1.1\r\n" + HOST + b"\r\n",
    "TRACE": b"TRACE /health HTTP/1.1\r\n" + HOST + b"\r\n",
    "an upgrade": get(b"/health", b"Connection: upgrade", b"Upgrade: websocket"),
    "an upgrade to HTTP/2": get(b"/", b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c"),
    "a length below": b"POST /predict HTTP/1.1\r\n" + HOST + b"Content-Length: -1\r\n\r\n",
    "a length of words": b"POST /predict HTTP/1.1\r\n" + HOST + b"Content-Length: ten\r\n\r\n",
    "a length of many digits": b"POST /predict HTTP/1.1\r\n"
    + HOST
    + b"Content-Length: "
    + b"9" * 5000
    + b"\r\n\r\n",
    "a length beyond": post(b"{}", length=10**18),
    "two lengths": post(b"{}", b"Content-Length: 7"),
    "a length and chunks": post(b"0\r\n\r\n", b"Transfer-Encoding: chunked"),
    "chunks twice": post(b"", b"Transfer-Encoding: chunked, chunked"),
    "a chunk beyond": chunked(b"ffffffffffffffff\r\nx"),
    "a chunk of many digits": chunked(b"f" * 5000 + b"\r\nx"),
    "many chunks": chunked(*[b"1\r\nx\r\n"] * 50_000, b"0\r\n\r\n"),
    "a long trailer": chunked(b"0\r\nX: " + b"a" * 100_000 + b"\r\n\r\n"),
    "no JSON": post(b"{" * 1000),
    "deep JSON": post(b"[" * 4000),
    "many digits": post(b'{"text": ' + b"9" * 4000 + b"}"),
    "a number that is none": post(b'{"text": NaN}'),
    "not UTF-8": post(b'{"text": "\xff"}'),
    "UTF-16": post('{"text": "a"}'.encode("utf-16")),
    "half a character": says({"text": "\ud800"}),
    "a key twice": post(b'{"text": "a", "text": 1}'),
    "keys of a class": says({"__class__": "os.system", "text": "a", "texts": []}),
    "too many texts": says({"texts": ["a"] * 100}),
    "too long a text": says({"text": "a" * 4000}),
    "another content": post(b"text=a", b"Content-Type: text/plain"),
    "a compressed body": post(b"\x1f\x8b\x08\0" + b"\0" * 100, b"Content-Encoding: gzip"),
    "a page of another site": post(b"{}", b"Origin: https://example.org"),
    "an origin that is none": post(b"{}", b"Origin: https://[::1"),
    "a form that is too long": post(b"text=" + b"a" * 4000, path=b"/show"),
    "an empty form": post(b"&=&" * 1000, path=b"/show"),
    "a form of percents": post(b"text=" + b"%" * 4000, path=b"/show"),
}
"""Each is answered by an error, or by nothing, and the connection can be closed."""
