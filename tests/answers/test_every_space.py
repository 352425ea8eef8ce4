"""What holds in every answer space: any text is survived, keys are canonical, golds pass their own scorer."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import texts
from how_many import examples
from keff.answers import Space, names, space
from keff.answers.parts import workers
from keff.records import AnswerSpace

OPTIONS = {"label": "label:labels=yes,no,A plant", "list": "list:inner=numeric"}
# The space of a user's function needs one: tests/cli/test_answer_key.py.
NAMES = [name for name in names() if name != "key"]
SPACES: list[Space] = [space(OPTIONS.get(name, name)) for name in NAMES]

WORDS = r"""#### \boxed{ \frac{ } \frac12 \text{ $ $$ \( \) \[ \] \{ \} Answer: answer is final <think>
</think> <answer> </answer> [ANSWER] <|channel|> ** ``` ```python def (A) B) C. A a I not yes no true 1 2,5
1,234 .5 1/2 -7 − % € 1e9 1e999 x= \sqrt \pi \pm \cup , ( ) [ ] ' " \ assert f(1) == correct returns ٣ ½ １"""
BLANKS = ["\n", " ", "\0", "\u200f", "\ud800", "\u2028", "\u202f", "A plant", "x = ", "the answer is "]
TEXTS = texts(30, [*WORDS.split(), *BLANKS])


@pytest.fixture(scope="module", autouse=True)
def no_worker() -> Iterator[None]:
    """Keep the worker processes out: their strings are tested in test_math."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "available", lambda: False)
        yield


@pytest.mark.slow
@pytest.mark.parametrize("each", SPACES, ids=NAMES)
@settings(max_examples=examples(60), deadline=None)
@given(text=TEXTS, truncated=st.booleans())
def test_any_text_is_survived_and_its_key_is_canonical(each: Space, text: str, truncated: bool) -> None:
    found = each.extract(text, truncated=truncated)
    for answer in (text, found.answer if found else ""):
        key = each.key(answer)
        if key is not None:
            assert key.strip()
            assert each.key(key) == key
            assert each.correct(answer, key)


@pytest.mark.parametrize("each", SPACES, ids=NAMES)
@settings(max_examples=examples(30), deadline=None)
@given(answers=st.lists(TEXTS, min_size=2, max_size=4), gold=TEXTS)
def test_equal_keys_are_scored_alike(each: Space, answers: list[str], gold: str) -> None:
    scores: dict[str, set[bool]] = {}
    for answer in answers:
        key = each.key(answer)
        if key is not None:
            scores.setdefault(key, set()).update((each.correct(answer, gold), each.correct(key, gold)))
        else:
            assert not each.correct(answer, gold)
    assert all(len(score) == 1 for score in scores.values())


HOSTILE = {
    "digits": "1" * 30_000,
    "commas": "1," * 15_000,
    "points": "1" + "." * 30_000,
    "answers": "the answer is " * 10_000,
    "boxes": r"\boxed{" * 8_000,
    "fractions": r"\frac{" * 8_000,
    "brackets": "[" * 30_000,
    "blanks": "answer" + " " * 30_000 + "x",
    "stars": "answer: " + "*" * 30_000,
    "thinking": "<think>" * 8_000 + "</think>" * 10_000,
    "labels": "A B " * 30_000 + "is",
    "dollars": "$" * 30_000,
    "newlines": "answer:" + "\n" * 30_000,
    "fences": "```\n" * 30_000,
    "quotes": "'" * 30_001,
    "escapes": "'" + "\\" * 30_001,
    "arabic": "٣" * 30_000,
    "asserts": "assert f(" * 12_000,
    "returns": "returns (" * 12_000,
    "text": r"\text{a" * 15_000,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_time_is_not_superlinear(name: str) -> None:
    """Ten times the text must not take a hundred times the processor time (a wide bound: it is noisy)."""
    text = HOSTILE[name]
    for each in SPACES:
        times: list[float] = []
        for part in (text[: len(text) // 10], text):
            began = time.process_time()
            each.extract(part)
            each.key(part)
            times.append(time.process_time() - began)
        assert times[1] < 40 * times[0] + 0.5, (each.name, times)


def rows(path: Path, count: int) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in islice(lines, count)]


GOLDS = [
    ("gsm8k", "numeric", lambda row: row["answer"].rpartition("####")[2].strip()),
    ("math500", "math", lambda row: row["answer"]),
    ("hotpotqa", "text", lambda row: row["answer"]),
    ("triviaqa", "text", lambda row: [row["answer"]["value"], *row["answer"]["aliases"]]),
    ("drop", "text", lambda row: row["answers_spans"]["spans"]),
    ("boolq", "binary", lambda row: row["answer"]),
    ("arc_challenge", "choice", lambda row: row["answerKey"]),
    ("cruxeval", "literal", lambda row: row["output"]),
    ("mbpp", "code", lambda row: row["code"]),
]


@pytest.mark.slow
@pytest.mark.parametrize(("file", "name", "gold_of"), GOLDS, ids=[file for file, *_ in GOLDS])
def test_every_benchmark_gold_passes_its_own_scorer(data: Path, file: str, name: Any, gold_of: Any) -> None:
    for row in rows(data / "benchmarks" / f"{file}.jsonl", 1000):
        labels = {"labels": tuple(row["choices"]["label"])} if name == "choice" else {}
        each = space(name, **labels)
        gold = gold_of(row)
        for one in gold if isinstance(gold, list) else [gold]:
            assert each.correct(str(one), gold), one
        if name not in ("code", "literal"):
            first = gold[0] if isinstance(gold, list) else gold
            found = each.extract(f"Because of this.\nFinal answer: {first}")
            assert found is not None, first
            assert each.correct(found.answer, gold), (first, found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pattern", "name", "least"),
    [
        ("boinf_gpqa*", "choice", 0.99),
        ("boinf_aime*", "numeric", 0.99),
        ("renze_*", "choice", 0.99),
        ("woc_asdiv*", "numeric", 0.99),
        ("cruxeval_output*", "literal", 0.99),
        ("qwen25math*", "math", 0.98),
        ("boinf_math500*", "math", 0.98),
    ],
)
def test_recorded_answers_are_scored_as_their_authors_did(
    data: Path, pattern: str, name: AnswerSpace, least: float
) -> None:
    """Only the first rows of each file: benchmarks/answers/extraction.py reads all, and all MATH."""
    agreed = total = 0
    for path in sorted((data / "recorded").glob(pattern)):
        for row in rows(path, 40):
            digits = str(row["gold_answer"]).isdigit()
            each = (
                space(name, labels=tuple("12345" if digits else "ABCDE")) if name == "choice" else space(name)
            )
            for answer, given_score in zip(row["all_answers"], row["all_correct"], strict=True):
                agreed += each.correct(answer or "", row["gold_answer"]) == bool(given_score)
                total += 1
    assert agreed / total >= least


def test_an_amount_that_is_a_long_fraction_is_read_again() -> None:
    pytest.importorskip("pint")
    key = f"-1/{12839359696240252 * 10**43} ampere^2*meter^2*second^2"
    assert space("quantity").key(key) == key
