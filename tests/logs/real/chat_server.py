"""A server of chat completions for the scripts beside it, which run without keff."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@contextmanager
def served(message: Callable[[dict[str, Any]], dict[str, Any]]) -> Iterator[str]:
    """Answer chat completions by ``message``, which gets each request; yields the base address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            said = {"role": "assistant", **message(body)}
            finish = "tool_calls" if "tool_calls" in said else "stop"
            choice = {"index": 0, "finish_reason": finish, "message": said}
            usage = {"prompt_tokens": 90, "completion_tokens": 12, "total_tokens": 102}
            made = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": body["model"]}
            sent = json.dumps({**made, "choices": [choice], "usage": usage}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
