"""Notes on words for "no answer" among the answers and gold answers of a record."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import islice

from keff.records import Note


def words_noted(
    counts: Mapping[str, int], golds: Iterable[object], states: Callable[[object], bool], space: str
) -> list[Note]:
    """Return notes on words that do not vote, and on those that stand for gold answers.

    ``counts`` are answers without a key and their numbers, ``golds`` all gold answers; ``states`` tells
    answers from such words. Each note says how to keep a word that is an answer.
    """
    notes: list[Note] = []
    said = {answer: count for answer, count in counts.items() if not states(answer)}
    if said:
        text = f"{sum(said.values())} answers say that there is none ({_shown(said)}), so they do not vote"
        notes.append(Note("answers_say_none", f"{text}. {_advice(said, space)}"))
    wordless = [gold for gold in golds if gold is not None and not states(gold)]
    if wordless:
        words = dict.fromkeys(str(gold) for gold in wordless)
        text = (
            f"{len(wordless)} gold answers say that there is none ({_shown(words)}), so keff leaves them out"
        )
        notes.append(Note("gold_says_none", f"{text}. {_advice(words, space)}"))
    return notes


def _shown(words: Iterable[str]) -> str:
    return ", ".join(repr(word if len(word) <= 40 else f"{word[:40]}...") for word in islice(words, 3))


def _advice(words: Iterable[str], space: str) -> str:
    word = next(iter(words)).strip()
    # Recorded answers are compared exactly; read again from texts, they are short texts.
    spec = "text" if space == "exact" else space
    if "{" in spec or "," in word or len(word) > 40:
        return "If one is an answer, name it in the option keep of the answer space"
    link = ",keep=" if ":" in spec and "inner=" not in spec else ":keep="
    link = "," if re.search(r"\bkeep=[^=]*$", spec) else link
    return f"If one is an answer, keep it: --answer-space {spec}{link}{word}"
