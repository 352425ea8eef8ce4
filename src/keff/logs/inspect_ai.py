"""Logs of inspect_ai, .eval or .json: epochs are the repeats; read without inspect installed."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast
from zipfile import ZipInfo

from keff.errors import LogError
from keff.log import LogInfo, Question, Tell, unheard
from keff.logs._lines import inner, loads
from keff.logs._rows import converted, count
from keff.logs._tasks import known_task
from keff.logs._zip import members, unpack
from keff.records import Note

HEADERS = ("header.json", "_journal/start.json")
GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
ENOUGH = 0.5
"""A graded score of at least this is right, as the paper takes token F1."""

MOST_JSON = 2**30

Sample = Mapping[str, Any]


class InspectAi:
    """Reader of inspect_ai's logs.

    The answer and the score are those of the first scorer; where a scorer names no answer, only its score is
    kept. Samples that ended in an error or were not scored are left out and counted. A ``.json`` log is
    read as a whole and may have up to 1 GiB; an ``.eval`` log is read question by question.
    """

    name = "inspect_ai"

    def refuses(self, path: Path) -> str | None:
        """Return why this is not a file of the format, or None when it is."""
        if not path.is_file():
            return "not a file"
        with path.open("rb") as file:
            head = file.read(4096)
        if head.startswith(b"PK\x03\x04"):
            names = {info.filename for info in members(path)}
            return None if names & set(HEADERS) else "a zip file without header.json"
        if path.suffix == ".eval":
            return "not a zip file"
        head = head.removeprefix(b"\xef\xbb\xbf")
        return None if head.lstrip().startswith(b"{") and b'"eval"' in head else 'no object with "eval"'

    def info(self, path: Path) -> LogInfo:
        """Return what the log says about itself."""
        about = inner(_header(path), "eval")
        return LogInfo(task=known_task(str(about.get("task", ""))), model=about.get("model"))

    def questions(self, path: Path, *, texts: bool = False, tell: Tell = unheard) -> Iterator[Question]:
        """Read question by question; see ``Log.questions``."""
        left_out = {"ended in an error": 0, "has no score": 0}
        kept = 0
        others: set[str] = set()
        for where, samples in _by_question(path):
            usable: list[Sample] = []
            for sample in sorted(samples, key=partial(_epoch, where)):
                others.update(list(inner(sample, "scores"))[1:])
                reason = "ended in an error" if sample.get("error") else _unscored(where, sample)
                if reason:
                    left_out[reason] += 1
                else:
                    usable.append(sample)
            if usable:
                kept += 1
                yield _question(where, usable, texts=texts)
        if not kept and any(left_out.values()):
            reasons = ", ".join(
                f"{number} times it {reason}" for reason, number in left_out.items() if number
            )
            raise LogError(f"{path}: no sample can be used: {reasons}")
        for reason, number in left_out.items():
            if number:
                tell(Note("left_out", f"{number} samples are kept out: each {reason}"))
        if others:
            tell(Note("other_scorers", f"the first scorer counts; not {', '.join(sorted(others))}"))


def _header(path: Path) -> Mapping[str, Any]:
    if not _is_zip(path):
        return _whole(path)
    found = {info.filename: info for info in members(path)}
    name = next((name for name in HEADERS if name in found), None)
    if name is None:
        raise LogError(f"{path}: it has no header.json")
    return _object(f"{path}: {name}", unpack(path, found[name]))


def _by_question(path: Path) -> Iterator[tuple[str, list[Sample]]]:
    """Yield the samples of one question at a time, in the order of its first sample."""
    if _is_zip(path):
        yield from _unpacked(path)
        return
    groups: dict[str, list[Sample]] = {}
    samples: Any = _whole(path).get("samples") or []
    if not isinstance(samples, list):
        raise LogError(f"{path}: samples must be a list")
    for sample in cast("list[Any]", samples):
        if not isinstance(sample, dict):
            raise LogError(f"{path}: a sample is no JSON object")
        one = cast("Sample", sample)
        groups.setdefault(str(one.get("id")), []).append(one)
    yield from ((f"{path}: sample {name}", group) for name, group in groups.items())


def _unpacked(path: Path) -> Iterator[tuple[str, list[Sample]]]:
    groups: dict[str, list[ZipInfo]] = {}
    for info in members(path):
        if info.filename.startswith("samples/") and info.filename.endswith(".json"):
            groups.setdefault(info.filename.rpartition("_epoch_")[0], []).append(info)
    for name, infos in groups.items():
        where = f"{path}: {name}"
        if sum(info.file_size for info in infos) > MOST_JSON:
            raise LogError(f"{where}: its epochs claim more than 1 GiB unpacked: not read")
        yield where, [_object(f"{path}: {info.filename}", unpack(path, info)) for info in infos]


def _is_zip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"


def _whole(path: Path) -> Mapping[str, Any]:
    if path.stat().st_size > MOST_JSON:
        raise LogError(f"{path}: a .json log above 1 GiB: turn it into .eval (inspect log convert)")
    return _object(str(path), path.read_bytes())


def _object(where: str, data: bytes) -> Mapping[str, Any]:
    try:
        found = loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise LogError(f"{where}: not JSON ({error})") from None
    if not isinstance(found, dict):
        raise LogError(f"{where}: a JSON object is wanted")
    return cast("Mapping[str, Any]", found)


def _epoch(where: str, sample: Sample) -> int:
    epoch = sample.get("epoch") or 0
    if not isinstance(epoch, int):
        raise LogError(f"{where}: the epoch must be an integer, not {epoch!r}")
    return epoch


def _unscored(where: str, sample: Sample) -> str | None:
    value = _score(sample).get("value")
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "has no score"
    _right(where, sample)
    return None


def _score(sample: Sample) -> Mapping[str, Any]:
    scores = inner(sample, "scores")
    return inner(scores, next(iter(scores), ""))


def _right(where: str, sample: Sample) -> int:
    value = _score(sample).get("value")
    if isinstance(value, str):
        value = GRADES.get(value, value)
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = float(value)
    if not isinstance(value, bool | int | float) or math.isnan(value):
        name = next(iter(sample["scores"]))
        raise LogError(f"{where}: the scorer {name} gave {value!r}, which is neither a grade nor a number")
    return int(value >= ENOUGH)


def _question(where: str, samples: Sequence[Sample], *, texts: bool) -> Question:
    first = samples[0]
    epochs = [_epoch(where, sample) for sample in samples]
    if len(set(epochs)) < len(epochs):
        raise LogError(f"{where}: an epoch occurs twice")
    answers = tuple(_text(_score(sample).get("answer")) for sample in samples)
    tokens = [inner(sample, "output", "usage").get("output_tokens") for sample in samples]
    return Question(
        id=str(first.get("id")),
        answers=answers,
        gold=first.get("target"),
        correct=tuple(_right(where, sample) for sample in samples),
        tokens=None if None in tokens else converted(where, "output_tokens", tokens, count),
        question=_prompt(first.get("input")),
        texts=tuple(_completion(sample) for sample in samples) if texts else None,
        form="answers" if any(answers) else "scores",
        meta=inner(first, "metadata"),
    )


def _text(value: Any) -> str | None:
    return None if value in (None, "") else str(value)


def _completion(sample: Sample) -> str:
    output = inner(sample, "output")
    if output.get("completion"):
        return str(output["completion"])
    choices: Sequence[Any] = output.get("choices") or [{}]
    return _content(inner(choices[0], "message").get("content"))


def _prompt(value: Any) -> str | None:
    """Return a sample's input: a text, or the last message of a chat."""
    if isinstance(value, list) and value:
        last = cast("list[Any]", value)[-1]
        value = last.get("content") if isinstance(last, dict) else last  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return None if value is None else _content(value)


def _content(value: Any) -> str:
    if isinstance(value, list):
        parts: Iterable[Any] = cast("list[Any]", value)
        return "".join(str(part.get("text") or "") for part in parts if isinstance(part, dict))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    return "" if value is None else str(value)


def log() -> InspectAi:
    """Make the reader."""
    return InspectAi()
