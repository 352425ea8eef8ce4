"""A server that answers with any bytes at all, as fast or as slowly as a test wants."""

from __future__ import annotations

import itertools
import json
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

REPLIES = itertools.count()
"""Numbers of replies, for ids: one that comes twice is one path."""

Give = Callable[[int, dict[str, Any]], Iterable[bytes]]
"""From the number and the body of a request to the parts of the whole HTTP answer, head included."""


def http(body: bytes, status: int = 200, **headers: str) -> list[bytes]:
    """Return a whole answer."""
    lines = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close"}
    lines |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return [f"HTTP/1.1 {status} So\r\n{head}\r\n".encode(), body]


def answer(text: str = "The final answer is 7", n: int = 1, **more: Any) -> dict[str, Any]:
    """Return a chat completion of n equal paths; ``more`` replaces its fields."""
    message = {"role": "assistant", "content": text}
    choices = [{"index": index, "message": message, "finish_reason": "stop"} for index in range(n)]
    usage = {"prompt_tokens": 7, "completion_tokens": 5 * n}
    return {
        "id": f"x{next(REPLIES)}",
        "object": "chat.completion",
        "model": "stub",
        "choices": choices,
        "usage": usage,
    } | more


def given(**more: Any) -> list[bytes]:
    """Return a chat completion as a whole answer; NaN and lone surrogates are written as they are."""
    return http(json.dumps(answer(**more)).encode())


@contextmanager
def raw_server(
    give: Give, paths: list[str] | None = None, port: int = 0, context: ssl.SSLContext | None = None
) -> Iterator[str]:
    """Run the server (on a free port if none is given) and give its base URL; it lists the model ``stub``.

    ``paths`` gathers where requests went, with their queries.
    """
    asked = itertools.count()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._send(http(b'{"data": [{"id": "stub"}]}'))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if paths is not None:
                paths.append(self.path)
            self._send(give(next(asked), body))

        def _send(self, parts: Iterable[bytes]) -> None:
            self.close_connection = True
            try:
                for part in parts:
                    self.wfile.write(part)
                    self.wfile.flush()
            except OSError:
                return

        def log_message(self, format: str, *args: Any) -> None:
            del format, args

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False
        request_queue_size = 128

    server = Server(("127.0.0.1", port), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
