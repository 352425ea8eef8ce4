"""LiteLLM's router as an upstream: ``python router.py URL`` prints its port, and answers by the server there.

With ``cache`` as a second argument it gives an old answer to a request that it has answered. It runs in the
environment of ``requirements.txt``. LiteLLM's own proxy routes by the same class.
"""

from __future__ import annotations

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
import litellm

STUB = {"model": "openai/stub", "api_base": sys.argv[1], "api_key": "none"}
CACHES = "cache" in sys.argv[2:]
ROUTER = litellm.Router(
    [{"model_name": "stub", "litellm_params": STUB}], num_retries=0, cache_responses=CACHES
)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if not self.path.endswith("/chat/completions"):
            self.say(404, {"error": {"message": "not found"}})
            return
        try:
            status, said = 200, ROUTER.completion(**body).model_dump()
        except Exception as error:
            status, said = getattr(error, "status_code", 500), {"error": {"message": str(error)}}
        self.say(status, said)

    def say(self, status: int, said: object) -> None:
        raw = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: Any) -> None:
        pass


with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
    print(server.server_port, flush=True)
    server.serve_forever()
