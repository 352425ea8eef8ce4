"""Answer spaces: how a final answer is read from text, compared and scored, one file each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keff.answers._base import Extracted, Space
from keff.answers._symbolic import limited, warm
from keff.answers._visible import strip_thinking
from keff.answers.binary import BinarySpace
from keff.answers.choice import ChoiceSpace
from keff.answers.code import CodeSpace
from keff.answers.exact import ExactSpace
from keff.answers.literal import LiteralSpace
from keff.answers.math import MathSpace
from keff.answers.numeric import NumericSpace
from keff.answers.plurality import Tally, tally
from keff.answers.text import TextSpace
from keff.errors import TaskError, unknown
from keff.records import AnswerSpace

__all__ = [
    "SLOW_SPACES",
    "Extracted",
    "Space",
    "Tally",
    "limited",
    "space",
    "strip_thinking",
    "tally",
    "warm",
]

SLOW_SPACES = frozenset[AnswerSpace]({"math", "code"})
"""Answer spaces in which reading one answer may take long: it is done in a thread, so that requests go on."""

_SPACES: dict[AnswerSpace, Callable[..., Space]] = {
    "numeric": NumericSpace,
    "choice": ChoiceSpace,
    "binary": BinarySpace,
    "text": TextSpace,
    "exact": ExactSpace,
    "math": MathSpace,
    "literal": LiteralSpace,
    "code": CodeSpace,
}


def space(name: AnswerSpace, **options: Any) -> Space:
    """Return an answer space by name.

    ``choice`` takes ``labels`` and ``options``, ``numeric`` takes ``tolerance``, ``text`` takes ``match``.
    Raises TaskError for an unknown name or option.
    """
    if name not in _SPACES:
        raise TaskError(unknown("answer space", name, _SPACES))
    try:
        return _SPACES[name](**options)
    except TypeError as error:
        raise TaskError(f"answer space {name}: {error}") from error
