"""A GitHub of one repository, for the real ``gh``: artifacts, and the comments of one pull request."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

REPOSITORY = "owner/suite"
# Of comments, so that what lies on the second page has to be asked for.
PAGE = 2


class GitHub:
    """What the repository holds; ``address`` is a proxy to it, as ``HTTP_PROXY``."""

    def __init__(self) -> None:
        self.artifacts: list[dict[str, Any]] = []
        self.comments: list[dict[str, Any]] = []
        self.address = ""

    @property
    def environment(self) -> dict[str, str]:
        """The variables that lead ``gh`` here: github.localhost is its own host for development."""
        token = {"GH_TOKEN": "t", "GH_ENTERPRISE_TOKEN": "t", "GH_HOST": "github.localhost"}
        return token | {"HTTP_PROXY": self.address, "REPOSITORY": REPOSITORY}

    def answer(self, method: str, path: str, query: dict[str, list[str]], sent: Any) -> tuple[Any, bool]:
        """Return the reply to one request, and whether there is a further page."""
        match method, path.removeprefix(f"/repos/{REPOSITORY}").split("/")[1:]:
            case "GET", ["actions", "artifacts"]:
                named = [each for each in self.artifacts if each["name"] in query["name"]]
                return {"total_count": len(named), "artifacts": named}, False
            case "GET", ["issues", "7", "comments"]:
                first = PAGE * (int(query.get("page", ["1"])[0]) - 1)
                return self.comments[first : first + PAGE], first + PAGE < len(self.comments)
            case "POST", ["issues", "7", "comments"]:
                self.comments.append(comment(len(self.comments) + 1, sent["body"]))
                return self.comments[-1], False
            case "PATCH", ["issues", "comments", number]:
                (found,) = (each for each in self.comments if each["id"] == int(number))
                found.update(body=sent["body"])
                return found, False
        raise AssertionError(f"{method} {path}")


def comment(number: int, body: str, kind: str = "Bot") -> dict[str, Any]:
    """Return a comment by a bot or by a person."""
    return {"id": number, "body": body, "user": {"type": kind}}


@contextmanager
def serving() -> Iterator[GitHub]:
    """Serve a repository that holds nothing yet."""
    github = GitHub()

    class Handler(BaseHTTPRequestHandler):
        def _reply(self) -> None:
            address = urlsplit(self.path)
            sent = self.rfile.read(int(self.headers.get("content-length") or 0))
            query = parse_qs(address.query)
            answer, more = github.answer(
                self.command, address.path, query, json.loads(sent) if sent else None
            )
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            if more:
                page = int(query.get("page", ["1"])[0]) + 1
                address = f"http://api.github.localhost{address.path}?page={page}"
                self.send_header("link", f'<{address}>; rel="next"')
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PATCH = _reply

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    github.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield github
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
