"""Notes on words for "no answer" among the answers and gold answers of a record."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice
from shlex import quote

from keff import answers
from keff.records import Note

# Characters of a word that a sentence can name.
LONGEST_NAMED = 40


# What tables and programs write into a cell without a value, as gold answer and answer alike.
_EMPTY_CELLS = frozenset({"na", "n a", "nan", "null", "none", "nil", "undefined", "missing"})


def gold_words(golds: Iterable[object], given: Collection[str], states: Callable[[object], bool]) -> set[str]:
    """Return words for "no answer" that are answers, because a gold answer and some answer are that word.

    Not those that stand in an empty cell as well: both may be missing.
    """
    unstated = {gold for gold in golds if isinstance(gold, str) and not states(gold)}
    return {word for word in unstated.intersection(given) if answers.bare(word) not in _EMPTY_CELLS}


def words_noted(
    counts: Mapping[str, int],
    golds: Iterable[object],
    states: Callable[[object], bool],
    space: str,
    kept: Collection[str],
) -> list[Note]:
    """Return notes on words that do not vote, and on those that stand for gold answers.

    ``counts`` are answers without a key and their numbers, ``golds`` all gold answers; ``states`` tells
    answers from such words, of which ``kept`` vote. Each note says how to keep a word that is an answer.
    """
    notes: list[Note] = []
    if kept:
        some = _first_words(kept)
        text = f"{some} may say that there is no answer, but is right on some questions, so it votes"
        notes.append(Note("words_kept", text))
    said = {answer: count for answer, count in counts.items() if not states(answer)}
    if said:
        text = (
            f"{sum(said.values())} answers say that there is none ({_first_words(said)}), so they do not vote"
        )
        notes.append(Note("answers_say_none", f"{text}. {_advice(said, space)}"))
    wordless = [gold for gold in golds if gold is not None and not states(gold)]
    if wordless:
        words = dict.fromkeys(str(gold) for gold in wordless)
        some = _first_words(words)
        text = f"{len(wordless)} gold answers say that there is none ({some}), so keff leaves them out"
        notes.append(Note("gold_says_none", f"{text}. {_advice(words, space)}"))
    return notes


def _first_words(words: Iterable[str]) -> str:
    named = (word if len(word) <= LONGEST_NAMED else f"{word[:LONGEST_NAMED]}..." for word in words)
    return ", ".join(map(repr, islice(named, 3)))


def _advice(words: Iterable[str], space: str) -> str:
    word = next(iter(words)).strip()
    if len(word) > LONGEST_NAMED:
        return "If one is an answer, name it in the option keep of the answer space"
    # Recorded answers are compared exactly; read again from texts, they are short texts.
    spec = answers.keeping("text" if space == "exact" else space, [word])
    return f"If one is an answer, keep it: --answer-space {quote(spec)}"
