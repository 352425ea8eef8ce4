"""Answer one question by the vote of as many paths as it takes, through any AsyncOpenAI client.

    python examples/self_consistency.py [BASE_URL]

Without an address it starts a small server here, which answers as an uncertain model would.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import openai

import keff

MESSAGES = [{"role": "user", "content": "What is 6 x 7? End with 'The final answer is' and the number."}]


class Uncertain(BaseHTTPRequestHandler):
    """Speaks the chat protocol; every fifth path is wrong."""

    def do_POST(self) -> None:
        """Answer one chat request."""
        seed = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["seed"]
        message = {"role": "assistant", "content": f"The final answer is {41 if seed % 5 == 1 else 42}."}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        reply = {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
        body = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Stay quiet."""


async def ask(base_url: str) -> None:
    """Ask once, and show what it took."""
    async with openai.AsyncOpenAI(base_url=base_url, api_key="none") as client:
        voted = await keff.self_consistency(
            client, MESSAGES, policy="lead_k:3,in_flight=3", space="numeric", model="m", seed=0
        )
    print(f"answer {voted.answer} after {voted.verdict.paths} paths: {voted.verdict.reason}")
    print(f"votes in launch order: {', '.join(map(str, voted.keys))}")
    print(f"share of the votes: {voted.verdict.weight:.0%}; tokens: {voted.tokens}")
    print(f"first path that says so: {voted.text}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(ask(sys.argv[1]))
    else:
        with ThreadingHTTPServer(("127.0.0.1", 0), Uncertain) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            asyncio.run(ask(f"http://127.0.0.1:{server.server_port}/v1"))
            server.shutdown()
