"""Questions on the page: all that fit, else the most contested and a sample; none is read in vain."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from keff.reading.open import Opening, Record, open_record
from keff.report.items import ByteLimits, _leads, embed, items_payload
from keff.stats.votes import Votes


def record(folder: Path, n: int, *, texts: bool = True) -> Record:
    rng = np.random.default_rng(0)
    file = folder / "votes.jsonl"
    with file.open("w") as lines:
        for place in range(n):
            answers = [str(code) for code in rng.integers(0, 1 + place % 4, 6).tolist()]
            row: dict[str, object] = {"id": f"q{place}", "gold_answer": "0", "all_answers": answers}
            if texts:
                row["all_texts"] = [f"I say {answer}" for answer in answers]
            lines.write(json.dumps(row) + "\n")
    return open_record(file, Opening(texts=True))


@pytest.mark.parametrize("k", [1, 2, 5])
def test_the_lead_is_that_of_the_counts(k: int) -> None:
    answers = np.random.default_rng(k).integers(-1, 3, (200, k))
    for row, lead in zip(answers.tolist(), _leads(Votes(answers, None)).tolist(), strict=True):
        counts = [count for _, count in Counter(code for code in row if code >= 0).most_common()]
        assert lead == pytest.approx((counts[0] - sum(counts[1:2])) / sum(counts) if counts else 2)


def test_all_questions_that_fit_are_shown(tmp_path: Path) -> None:
    shown = items_payload(record(tmp_path, 40), ByteLimits())
    assert (shown["total"], len(shown["rows"]), shown["texts"], shown["has_texts"]) == (40, 40, 40, True)


def test_of_many_questions_the_most_contested_and_a_sample_are_shown(tmp_path: Path) -> None:
    whole, limits = record(tmp_path, 2000), ByteLimits(20_000, 5_000)
    shown = items_payload(whole, limits)
    places, leads = [row["n"] for row in shown["rows"]], _leads(whole.ballot.votes)
    assert 100 < len(places) == len(set(places)) < 2000
    assert places == sorted(places)
    assert sum(len(embed({**row, "p": None})) for row in shown["rows"]) < 1.2 * limits.votes
    assert 0 < shown["texts"] < len(places)
    contested = np.flatnonzero(leads == leads.min()).tolist()
    assert len(set(places) & set(contested)) >= min(len(contested), 60)
    rest = leads[np.setdiff1d(places, contested)]
    assert rest.size > 20
    assert len(np.unique(rest)) > 3
    assert shown == items_payload(whole, limits)


def test_questions_that_are_not_shown_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, read = record(tmp_path, 3000), Counter[str]()
    question_of = "keff.logs.keff_jsonl.question_of"

    def counted(where: str, *args: object, **how: object) -> object:
        read[where] += 1
        return original(where, *args, **how)

    original = __import__("keff.logs.keff_jsonl", fromlist=["question_of"]).question_of
    monkeypatch.setattr(question_of, counted)
    shown = items_payload(whole, ByteLimits(10_000, 2_000))
    assert len(shown["rows"]) < 300
    assert sum(read.values()) < 3 * len(shown["rows"])


def test_a_record_without_texts_has_none(tmp_path: Path) -> None:
    shown = items_payload(record(tmp_path, 10, texts=False), ByteLimits())
    assert (shown["texts"], shown["has_texts"]) == (0, False)
