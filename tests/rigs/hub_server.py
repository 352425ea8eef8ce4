"""A stand-in on 127.0.0.1 for the Hugging Face hub.

Enough of it for the real package ``datasets`` to read from.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

REVISION = "0" * 40
Repositories = Mapping[str, Mapping[str, bytes]]


def repository(config: str, split: str, lines: bytes) -> dict[str, bytes]:
    """Return the files of a data set repository with one split of one configuration."""
    file = f"{config}/{split}.jsonl"
    files = f"  data_files:\n  - split: {split}\n    path: {file}\n"
    return {"README.md": f"---\nconfigs:\n- config_name: {config}\n{files}---\n".encode(), file: lines}


@contextmanager
def hub(repositories: Repositories) -> Iterator[str]:
    """Serve data set repositories, name -> path -> bytes, and give the address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(repositories)) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


class _Handler(BaseHTTPRequestHandler):
    repositories: ClassVar[Repositories]
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.split("?")[0].strip("/").removeprefix("api/").removeprefix("datasets/")
        name = "/".join(path.split("/")[:2])
        files, rest = self.repositories.get(name), path[len(name) + 1 :].split("/", 2)
        if files is None:
            self.say(b"{}", 404, {"X-Error-Code": "RepoNotFound"})
        elif rest[0] == "resolve":
            self.file(files, rest[2])
        elif rest[0] == "tree":
            self.say(json.dumps(_tree(files, rest[2] if len(rest) > 2 else "")).encode())
        else:
            siblings = [{"rfilename": file} for file in files]
            about = {"id": name, "sha": REVISION, "private": False, "tags": [], "siblings": siblings}
            self.say(json.dumps(about).encode())

    def file(self, files: Mapping[str, bytes], name: str) -> None:
        if name not in files:
            self.say(b"{}", 404, {"X-Error-Code": "EntryNotFound"})
            return
        tag = hashlib.sha1(files[name]).hexdigest()
        self.say(files[name], 200, {"ETag": f'"{tag}"', "X-Repo-Commit": REVISION})

    def say(self, body: bytes, code: int = 200, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(code)
        for key, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _handler(repositories: Repositories) -> type[BaseHTTPRequestHandler]:
    return type("Handler", (_Handler,), {"repositories": repositories})


def _tree(files: Mapping[str, bytes], folder: str) -> list[dict[str, object]]:
    start = f"{folder}/" if folder else ""
    return [
        {"type": "file", "path": name, "size": len(body), "oid": hashlib.sha1(body).hexdigest()}
        for name, body in files.items()
        if name.startswith(start)
    ]
