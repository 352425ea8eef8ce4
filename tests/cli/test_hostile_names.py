"""No control character or mark of direction of a name reaches the terminal, a log or a page."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path

import httpx2
import pytest

import command_line
from gateway_rig import gateway
from keff.gateway.server import Lines
from raw_server import http, raw_server

HOSTILE = "x\x1b]0;owned\x07\x9b31m\u202eevil\u2066\u2069\u200f\u200e\u061cy"
HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")

COMMANDS = [
    ("analyze", "LOG"),
    ("analyze", "LOG", "--json"),
    ("analyze", "LOG", "--answer-space", HOSTILE),
    ("analyze", "LOG", "--now", HOSTILE),
    ("analyze", "GONE"),
    ("analyze", "LOG", HOSTILE),
    (HOSTILE,),
    ("analyze", "LOG", f"--{HOSTILE}"),
    ("analyze", "BAD"),
    ("noise", "LOG"),
    ("audit", "LOG"),
    ("compare", "LOG", "LOG"),
    ("read", "LOG", "--answer-space", "text"),
    ("replay", "LOG", "--policy", HOSTILE),
    ("replay", "LOG", "--policy", "fixed:2", "-o", "OUT.md"),
    ("report", "LOG", "-o", "OUT.html"),
    ("export", "LOG", "-o", "OUT.txt"),
    ("join", "LOG", "GONE", "-o", "OUT.jsonl"),
    ("score", "GONE"),
    ("combine", "LOG"),
    ("tables", "LOG", "-o", "OUT.d", "--format", "markdown"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("names") / HOSTILE
    made.mkdir()
    rows = [
        {
            "id": f"q{n}{HOSTILE}",
            "all_answers": [f"a{n}{HOSTILE}", HOSTILE, f"a{n}{HOSTILE}"],
            "gold_answer": f"a{n}{HOSTILE}",
            "model": HOSTILE,
            "cluster": HOSTILE,
        }
        for n in range(12)
    ]
    (made / "LOG.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (made / "BAD.jsonl").write_text(json.dumps({HOSTILE: HOSTILE}) + "\n", encoding="utf-8")
    return made


@pytest.mark.parametrize(
    "words", COMMANDS, ids=lambda words: " ".join(words[:1] + words[2:]).encode("unicode_escape").decode()
)
def test_no_command_shows_a_hostile_name_as_it_is(
    folder: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    known = {"LOG": folder / "LOG.jsonl", "BAD": folder / "BAD.jsonl", "GONE": folder / "gone.jsonl"}
    given = [
        str(tmp_path / word) if word.startswith("OUT.") else str(known.get(word, word)) for word in words
    ]
    done = command_line.keff(*given)
    assert done.stdout or done.stderr
    assert not HARMFUL.search(done.stdout), repr(done.stdout)
    assert not HARMFUL.search(done.stderr), repr(done.stderr)
    for file in tmp_path.rglob("*.*"):
        if file.suffix in (".md", ".html"):
            assert not HARMFUL.search(file.read_text("utf-8"))
    if "--json" in words:
        assert json.loads(done.stdout)


REFUSED = json.dumps({"error": {"message": f"no {HOSTILE}"}}).encode()


@pytest.mark.parametrize("command", ["sample", "pilot"])
def test_what_a_server_says_is_shown_without(tmp_path: Path, command: str) -> None:
    words = ("--run", tmp_path / HOSTILE, "--n", 2, "--k", 2, "--yes", "--model", HOSTILE)
    with raw_server(lambda *_: http(REFUSED, 400)) as url:
        done = command_line.keff(command, "starter", "--base-url", url, *words)
    assert done.returncode == 1
    assert "evily" in done.stderr
    assert not HARMFUL.search(done.stdout + done.stderr)


def test_the_operator_s_page_shows_what_an_upstream_says_without() -> None:
    with raw_server(lambda *_: http(REFUSED, 500)) as url, gateway(url, replacements=0) as rig:
        assert rig.post().status_code >= 500
        page = httpx2.get(rig.url.removesuffix("/v1") + "/keff", headers={"accept": "text/html"}).text
    assert "evily" in page
    assert not HARMFUL.search(page)


@pytest.mark.parametrize(
    "message", [f"upstream said {HOSTILE}", json.dumps({"model": HOSTILE}, ensure_ascii=False)]
)
def test_a_line_of_the_log_holds_none_and_says_the_same(message: str) -> None:
    record = logging.LogRecord("keff", logging.INFO, "", 0, message, None, None)
    line = Lines().format(record)
    assert not HARMFUL.search(line)
    assert HOSTILE in " ".join(map(str, json.loads(line).values()))
