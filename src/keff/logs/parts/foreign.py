"""Rows of other tools' logs in canonical form, and whether their answers are whole completions."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from keff.errors import LogError
from keff.log import LogInfo, NoteSink, Question, ignore
from keff.logs.parts.columns import VERDICTS, Layout
from keff.logs.parts.tabled import tabled
from keff.logs.parts.values import as_truth, at, optional_text, real, short, spoken
from keff.narrow import Fields, Object, entries, fields, items, only
from keff.protocol.reply import is_cut
from keff.records import Note, stable_hash

# Answers that tell whether a log holds answers or whole completions.
LOOKED_AT = 256
# Longer than any short answer, shorter than any reasoning.
MOST_WORDS = 8

# A row per path: id, answer, text, correct, gold_answer, model, path, tokens, ... as the tool says.
Canonical = Fields


class LeftOut(Counter[str]):
    """Counts of entries a reader had to leave out, by reason."""

    def refuse(self, what: str) -> LogError:
        """Return the error for a log without any usable entry."""
        reasons = ", ".join(f"{count} times it {reason}" for reason, count in self.items())
        return LogError(f"no {what} can be used: {reasons or 'there are none'}")

    def say(self, what: str, tell: NoteSink) -> None:
        """Report how many entries were left out, and why."""
        for reason, count in self.items():
            tell(Note("left_out", f"{count} {what} are left out: each {reason}"))


class ScoreOptions:
    """Options of readers of scores: the ``scorer`` to use, and the ``threshold`` from which it is right."""

    def __init__(self, scorer: str | None = None, threshold: float | None = None) -> None:
        self.scorer, self.threshold = scorer, threshold


@dataclass(slots=True)
class UsableRows:
    """Collects usable rows of one path each, in file order, numbered within a question.

    ``left_out`` counts the others by reason, and those that the file holds twice; ``repeated`` counts rows
    that repeat an earlier one where nothing names a path.
    """

    rows: list[tuple[str, Canonical]] = field(default_factory=list[tuple[str, Canonical]])
    left_out: LeftOut = field(default_factory=LeftOut)
    repeated: int = 0
    _seen: set[str] = field(default_factory=set[str])
    _paths: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])

    def add(self, where: str, row: Canonical, own: object, *, named: bool = True) -> None:
        """Add a row; without a number, as the next path of its question and model.

        ``own`` is what only this path has: its name in the file, or all that the file says of it. Where it is
        not ``named``, two paths may be written alike, and each counts.
        """
        name = stable_hash(own)
        if name in self._seen and named:
            self.left_out["was written before"] += 1
            return
        self.repeated += name in self._seen
        self._seen.add(name)
        mark = str(row["id"]), str(row.get("model"))
        self.rows.append((where, {"path": self._paths[mark], **row}))
        self._paths[mark] += 1

    def questions(self, tell: NoteSink, *, texts: bool) -> Iterator[Question]:
        """Yield the questions, then report what was left out; raises LogError if nothing was usable.

        Where some paths have a verdict, those without one are left out too.
        """
        judged = any(_has_verdict(row) for _, row in self.rows)
        rows = [pair for pair in self.rows if not judged or _has_verdict(pair[1])]
        if len(rows) < len(self.rows):
            self.left_out["has no verdict"] += len(self.rows) - len(rows)
        if not rows:
            raise self.left_out.refuse("path")
        layout = Layout({word: word for word in _fields_used([row for _, row in rows])}, {})
        yield from tabled(lambda: rows, layout, texts=texts, tell=tell)
        self.left_out.say("paths", tell)
        if self.repeated:
            text = f"{self.repeated} lines repeat an earlier line in every field; each counts as a path"
            tell(Note("identical_lines", text))


def _fields_used(rows: Sequence[Canonical]) -> set[str]:
    """Return the fields of canonical rows that are to be used.

    Answers that are the model's whole completion are read from the texts instead, and where there are no
    answers at all, texts or correctness alone are kept. Where some path has a score that is neither right nor
    wrong, the scores alone are.
    """
    head = rows[:LOOKED_AT]
    words = {word for row in head for word, value in row.items() if optional_text(value) is not None}
    words |= {"id"}
    if "answer" in words and _are_completions(head):
        words.discard("answer")
    if "score" in words and any(row.get("correct") is None and _has_verdict(row) for row in rows):
        return words - VERDICTS
    if not words & VERDICTS:
        raise LogError("its rows hold neither answers nor texts nor correctness")
    return words - {"score"}


class PathReader:
    """Base class of readers that collect all usable paths of a file."""

    def info(self, path: Path) -> LogInfo:
        """Return empty metadata: most of these formats state none."""
        del path
        return LogInfo()

    def questions(self, path: Path, *, texts: bool = False, tell: NoteSink = ignore) -> Iterator[Question]:
        """Yield the questions one by one; see ``Log.questions``."""
        kept = UsableRows()
        self.collect(kept, path, tell)
        yield from kept.questions(tell, texts=texts)

    def collect(self, kept: UsableRows, path: Path, tell: NoteSink) -> None:
        """Collect the usable paths, and count the others."""
        raise NotImplementedError


# Settings of other tools that change paths -> their names in the sampling of a configuration.
SAMPLING = {
    "temperature": "temperature",
    "top_p": "top_p",
    "max_gen_toks": "max_tokens",
    "max_tokens": "max_tokens",
    "seed": "seed",
    "reasoning_tokens": "thinking",
}


def configured(engine: Fields, task: str, tool: str, asked: Fields, stop: object) -> Object:
    """Return a configuration in the form of a run's manifest, without unstated fields."""
    sampling = {ours: asked[theirs] for theirs, ours in SAMPLING.items() if asked.get(theirs) is not None}
    return {
        "engine": {name: value for name, value in engine.items() if value},
        "task": {"name": task, "version": f"recorded by {tool}"},
        "sampling": sampling | ({"stop": stop} if items(stop) else {}),
        "templates": [0],
        "prompt": "",
    }


def mark(value: object) -> str:
    """Return an id for a question whose log has none: a hash of its prompt; empty where it has no prompt."""
    return "" if value in (None, "", [], {}) else stable_hash(value)[:16]


def verdict(where: str, value: object, threshold: float | None = None) -> Canonical:
    """Return ``correct`` and ``score`` from a verdict in any form (true, "yes", "pass", 0.7).

    A number other than 0 and 1 is a score alone where no ``threshold`` says from which one on it is right.
    Empty where there is no verdict; raises LogError that begins with ``where`` for what is neither.
    """
    if value is None or value == "":
        return {}
    try:
        number = real(as_truth(value))
    except (ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise LogError(f"{where} gave {short(value)}, which is neither a grade nor a number")
    if threshold is not None:
        return {"correct": int(number >= threshold)}
    return {"correct": int(number) if number in (0, 1) else None, "score": number}


def _has_verdict(row: Canonical) -> bool:
    return row.get("correct") is not None or row.get("score") is not None


def said_in(body: Fields) -> list[Object]:
    """Return the choices of a chat completion, a completion or a response: ``text``, and if it was cut."""
    said: list[Object] = [
        {
            "text": spoken(at(choice, "message", "text")) or "",
            "truncated": int(is_cut(choice.get("finish_reason"))),
        }
        for choice in entries(body.get("choices"))
    ]
    answers = [part for part in entries(body.get("output")) if part.get("type") == "message"]
    if answers:
        text = "".join(spoken(part) or "" for part in answers)
        said.append({"text": text, "truncated": int(body.get("status") == "incomplete")})
    return said


def parsed(value: object) -> object:
    """Return a text parsed as JSON, else the value."""
    if isinstance(value, str):
        with suppress(ValueError, RecursionError):
            return json.loads(value)
    return value


def asked_in(inputs: object) -> str | None:
    """Return the question in the inputs of a call: their only one, or the last message."""
    values = list(fields(inputs).values()) or [inputs]
    messages = entries(fields(inputs).get("messages"))
    return spoken(messages[-1] if messages else values[0] if len(values) == 1 else inputs)


def answer_in(outputs: object) -> str | None:
    """Return the answer in the outputs of a call.

    That is the first choice of a chat completion, the last message, what is called answer or output, the only
    value, or else all of it.
    """
    held = fields(outputs)
    said = at(held, "choices/0/message", "messages/-1", "answer", "output") or only(list(held.values()))
    return spoken(outputs if said is None else said)


def _are_completions(rows: Iterable[Canonical]) -> bool:
    """Return whether the answers are whole completions: equal to the texts, and too long for answers."""
    pairs = [
        (optional_text(row.get("answer")), optional_text(row.get("text")))
        for row in rows
        if optional_text(row.get("answer")) is not None
    ]
    same = all(answer == text for answer, text in pairs)
    return same and any(len((answer or "").split()) > MOST_WORDS for answer, _ in pairs)
