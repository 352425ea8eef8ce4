"""Retry served with a real checker: a function, and a reward model at a URL; one branch, and two."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx2
import pytest

from fault_server import Script, running
from gateway_rig import QUESTION, gateway
from gateway_rig import served as serve_process
from keff.errors import UsageError
from keff.plan import BranchPlan, Plan
from keff.sampling.verifier import verifier_of

SEEDED = {"model": "m", "messages": QUESTION, "seed": 0}

CHECK = "def check(prompt, text):\n    return 'def f' in text and 'return 8' in text\n"


def codes(*values: int) -> Any:
    """Answer by a function that returns a value, by the path's seed."""
    return lambda _, seed: f"def f():\n    return {values[seed % len(values)]}"


class Scores(BaseHTTPRequestHandler):
    """A reward model in vLLM's form that scores 1 for the right function."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        reply = json.dumps({"data": [{"score": float("return 8" in body["text_2"])}]}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def checkers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[str | None, str | None]]]:
    """The options of a checker: a function in a file, and a server."""
    file: Path = tmp_path_factory.mktemp("checker") / "mine.py"
    file.write_text(CHECK)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Scores)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.server_address[1]}/score"
    yield {"function": (f"{file}:check", None), "url": (None, url)}
    server.shutdown()
    server.server_close()
    thread.join()


@contextmanager
def served(policy: str, checker: tuple[str | None, str | None], *answers: Any) -> Iterator[Any]:
    """Serve a policy on one server for each of the answers; two are the branches small and large."""
    with ExitStack() as stack:
        urls = [stack.enter_context(running(Script(answer=answer))) for answer in answers]
        names = ("small", "large")[: len(urls)] if len(urls) > 1 else ()
        branches = tuple(
            BranchPlan(name=name, model=name, upstream=url) for name, url in zip(names, urls, strict=False)
        )
        plan = Plan(policy=policy, estimates={}, branches=branches)
        upstream = None if branches else urls[0]
        yield stack.enter_context(gateway(upstream, plan, verifier=verifier_of(*checker)))


@pytest.mark.parametrize("kind", ["function", "url"])
def test_tries_end_at_the_first_that_passes(kind: str, checkers: dict[str, Any]) -> None:
    with served("retry:4", checkers[kind], codes(7, 9, 8, 8)) as rig:
        reply = rig.post(SEEDED).json()
        told = reply["keff"]
        assert told["paths"] == 3 and told["weight"] == {"value": 1.0, "kind": "verdict"}
        assert reply["choices"][0]["message"]["content"].endswith("return 8")
        assert rig.metric('keff_verifier_paths_total{became="rated"}') == 3
    with served("retry:4", checkers[kind], codes(7, 9, 8)) as rig:
        # A request may ask for fewer.
        assert rig.post({**SEEDED, "keff": {"cap": 2}}).json()["keff"]["paths"] == 2
    with served("retry:2", checkers[kind], codes(7, 9, 8)) as rig:
        reply = rig.post(SEEDED).json()
        assert reply["keff"]["weight"] == {"value": 0.0, "kind": "verdict"}
        assert reply["keff"]["stop_reason"].startswith("none of 2 tries")
        assert reply["choices"][0]["message"]["content"].endswith("return 9")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["function", "url"])
def test_a_process_that_serves_tries_until_its_checker_passes(kind: str, checkers: dict[str, Any]) -> None:
    """As in the documentation: ``keff serve --policy retry:4 --verifier FILE:FUNCTION --upstream URL``.

    With ``--cap 2`` it ends before the third, which would pass.
    """
    fewer = kind == "url"
    given = zip(("--verifier", "--verifier-url"), checkers[kind], strict=True)
    options = [word for option, value in given if value for word in (option, value)]
    with ExitStack() as stack:
        url = stack.enter_context(running(Script(answer=codes(7, 9, 8, 8))))
        command = ("--policy", "retry:4", *options, "--upstream", url, *(["--cap", "2"] if fewer else []))
        process, listening = stack.enter_context(serve_process(*command))
        reply = httpx2.post(listening["url"] + "/chat/completions", json=SEEDED, timeout=30).json()
        process.terminate()
    paths, weight, last = (2, 0.0, "return 9") if fewer else (3, 1.0, "return 8")
    assert reply["keff"]["paths"] == paths
    assert reply["keff"]["weight"] == {"value": weight, "kind": "verdict"}
    assert reply["choices"][0]["message"]["content"].endswith(last)


def test_where_no_try_of_the_small_model_passes_the_large_one_is_asked(checkers: dict[str, Any]) -> None:
    policy = "cascade:small(retry:2)/large(retry:3)"
    with served(policy, checkers["function"], codes(7, 9), codes(6, 6, 6, 8)) as rig:
        reply = rig.post(SEEDED).json()
        told = reply["keff"]
        assert told["paths"] == 4
        paths = {branch["name"]: branch["paths"] for branch in told["branches"]}
        assert paths == {"small": 2, "large": 2}
        assert reply["choices"][0]["message"]["content"].endswith("return 8")
    with served(policy, checkers["function"], codes(8), codes(8)) as rig:
        told = rig.post(SEEDED).json()["keff"]
        assert told["paths"] == 1 and told["weight"]["value"] == 1.0


def test_a_checker_that_dies_passes_nothing_and_the_large_model_answers(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def check(prompt, text):\n    raise RuntimeError('gone')\n")
    checker = (f"{tmp_path / 'mine.py'}:check", None)
    with served("cascade:small(retry:1)/large(retry:1)", checker, codes(7), codes(8)) as rig:
        reply = rig.post(SEEDED).json()
        assert reply["keff"]["weight"]["value"] == 0.0
        assert reply["choices"][0]["message"]["content"].endswith("return 8")
        assert rig.metric('keff_verifier_paths_total{became="failed"}') == 2


def test_without_a_checker_a_retry_is_refused() -> None:
    with (
        pytest.raises(UsageError, match="name it with --verifier"),
        served("retry:2", (None, None), codes(8)),
    ):
        pass
    with ExitStack() as stack:
        url = stack.enter_context(running(Script(answer=codes(8))))
        rig = stack.enter_context(gateway(url, Plan(policy="fixed:1", space="numeric", estimates={})))
        refused = rig.post({**SEEDED, "keff": {"policy": "retry:2"}})
        assert refused.status_code == 400 and "needs a checker" in refused.text
