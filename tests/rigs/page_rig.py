"""Records for the report page, and the page in a browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from keff.analysis.estimates import Settings, analyze
from keff.analysis.results.estimates import Analysis
from keff.reading.open import Opening, Record, open_record

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
Loaded = tuple[Any, list[str]]


def write_log(file: Path, rows: list[dict[str, Any]]) -> Path:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def rows(n: int, k: int, seed: int, slots: int = 1) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    found: list[dict[str, Any]] = []
    for index in range(n):
        right = rng.random(k) < rng.beta(1.5, 1.0)
        answers = ["12" if one else str(rng.integers(3)) for one in right]
        texts = [
            f"Let me think about {index}. 12 is tempting. The answer is {one}. Not {one} + 1."
            for one in answers
        ]
        rules = ["marker"] * k
        row = {
            "id": f"q/{index}",
            "all_rules": rules,
            "question": f"What is number {index}?",
            "gold_answer": "12",
        }
        found.append(
            row | {"all_answers": answers, "all_texts": texts, "slots": [j % slots for j in range(k)]}
        )
    return found


def exhibit(file: Path) -> tuple[Record, Analysis]:
    record = open_record(file, Opening(texts=True))
    return record, analyze(record, Settings())


def load(browser: Any, file: Path, anchor: str = "", **context: Any) -> Loaded:
    """Open the page and wait until its table is there; return it with everything that went wrong."""
    page = browser.new_context(**context).new_page()
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    page.on(
        "request",
        lambda request: wrong.append(f"request: {request.url}") if "file:" not in request.url else None,
    )
    page.goto(file.as_uri() + anchor)
    page.wait_for_selector("html[data-ready=yes]")
    return page, wrong
