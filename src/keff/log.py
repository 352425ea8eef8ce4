"""The interface of a log reader: recorded answers of any tool, one question at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Question:
    """One recorded question with its K answers.

    ``answers`` are as recorded (None abstains); ``correct`` 0/1 a path where the log gives it; ``tokens``,
    ``confidences`` and ``slots`` one a path where given. ``cluster`` defaults to the id. ``texts`` are the
    raw completions where the log has them.
    """

    id: str
    answers: tuple[str | None, ...]
    gold: Any = None
    correct: tuple[int, ...] | None = None
    tokens: tuple[float, ...] | None = None
    confidences: tuple[float, ...] | None = None
    slots: tuple[int, ...] | None = None
    cluster: str = ""
    question: str | None = None
    texts: tuple[str, ...] | None = None
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class LogInfo:
    """What a log says about itself: ``task`` as a keff task name where known, the model, other facts."""

    task: str | None = None
    model: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Log(Protocol):
    """Reads one format. Made by ``keff.plugins.load("log", name)``."""

    name: str

    def refuses(self, path: Path) -> str | None:
        """Return why this is not the format's file, or None when it is; reads only the head of the file."""
        ...

    def info(self, path: Path) -> LogInfo:
        """Return what the log says about itself."""
        ...

    def questions(self, path: Path) -> Iterator[Question]:
        """Read question by question in bounded memory; raises LogError naming file and line."""
        ...
