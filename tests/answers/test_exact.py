"""Whole texts as answers."""

from __future__ import annotations

import pytest

from keff.answers import space
from keff.errors import TaskError

EXACT = space("exact")

WORDS = ["Paris", "42", "yes", "B", "a b", "{'a': 1}", "x = 1", "Ä", "東京", "The answer is 5.", "nil"]
FRAMES = ["{}", " {}\n", "\t{} ", "<think>no</think>{}", "thought it over</think>\n{}"]


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("frame", FRAMES)
def test_the_whole_text_is_the_answer(word: str, frame: str) -> None:
    found = EXACT.extract(frame.format(word))
    assert found is not None
    assert (found.answer, EXACT.key(found.answer), found.rule) == (word, word, "whole text")
    assert EXACT.correct(found.answer, [word])
    assert not EXACT.correct(found.answer, word + "!")


def test_blank_or_truncated_text_abstains() -> None:
    assert EXACT.extract(" \n") is None
    assert EXACT.extract("Pari", truncated=True) is None
    assert EXACT.extract("<think>Paris") is None
    assert EXACT.key(" ") is None


def test_unknown_spaces_and_options_are_refused() -> None:
    with pytest.raises(TaskError, match="unknown answer space 'poem'; there are: binary"):
        space("poem")  # pyright: ignore[reportArgumentType]
    with pytest.raises(TaskError, match=r"answer space exact: .*labels"):
        space("exact", labels=("A",))
