"""Records in and out: any log into a run folder, any run or log into JSONL or Parquet."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from keff.errors import LogError, UsageError
from keff.log import Log, LogInfo, Question, find_log
from keff.logs._rows import KNOWN
from keff.logs.run import CONFIDENCES
from keff.manifest import Config
from keff.plugins import missing_extra
from keff.reader import Opening, one_part, reading
from keff.records import Completion, Item, path_seed, stable_hash
from keff.records import Path as Drawn
from keff.scoring import Reading, correct_of, keys_of, with_answers
from keff.stats.estimate import Note
from keff.store import Run
from keff.task import Judged

Target = Literal["jsonl", "parquet"]


@dataclass(frozen=True, slots=True)
class Transfer:
    """What was moved: questions and paths, and what was left out."""

    questions: int
    paths: int
    notes: tuple[Note, ...]


@dataclass(frozen=True, slots=True)
class _Source:
    log: Log
    info: LogInfo
    reading: Reading
    questions: Iterator[Question]
    notes: list[Note]


def import_log(path: Path, folder: Path, opening: Opening | None = None) -> Transfer:
    """Turn a log into a run folder that analyze, replay and report read as any other run.

    Answers, canonical keys and correctness are kept as the log has them or as the reading finds them; the
    raw texts where the log has them, else the answers themselves. An import that was interrupted goes on
    where it stopped, for committed paths stay. Raises LogError for what cannot be read, and for logs that
    hold correctness only.
    """
    source = _open(path, opening or Opening(), texts=True)
    name, model = source.info.task or "imported", source.info.model
    questions = list(source.questions)
    if not questions:
        raise LogError(f"{path}: there are no questions in it")
    slots = dict.fromkeys(slot for question in questions for slot in question.slots or (0,))
    config = Config(
        engine={"engine": f"log {source.log.name}", "model": model},
        task={"name": name, "version": f"recorded by {source.log.name}", "space": source.reading.space},
        sampling={},
        templates=tuple(slots),
        prompt=stable_hash(questions[0].question),
    )
    most = max(len(question.answers) for question in questions)
    with Run.write(folder, config, n=len(questions), k=most) as run:
        run.put_items([_item(question, source) for question in questions])
        for question in questions:
            paths = list(_paths(question))
            run.add(paths)
            run.add_scores(list(zip(paths, _judged(question, source), strict=True)), config.task["version"])
    return Transfer(len(questions), sum(len(one.answers) for one in questions), tuple(source.notes))


def export_log(
    path: Path, out: Path, to: Target, *, texts: bool = True, opening: Opening | None = None
) -> Transfer:
    """Write a run or a log, question by question, as JSONL or Parquet that keff reads back the same.

    The file appears only when it is whole. Raises UsageError when it exists already.
    """
    if out.exists():
        raise UsageError(f"{out} exists already: move it away, or name another file with -o")
    source = _open(path, opening or Opening(), texts=texts)
    draft = out.with_name(f".{out.name}.{os.getpid()}")
    counts = [0, 0]
    try:
        _write(draft, to, _rows(source, counts, packed=to == "parquet"))
        draft.replace(out)
    except OSError as error:
        raise UsageError(f"{out}: {error.strerror or error}") from None
    finally:
        draft.unlink(missing_ok=True)
    return Transfer(counts[0], counts[1], tuple(source.notes))


def _write(draft: Path, to: Target, rows: Iterator[dict[str, Any]]) -> None:
    if to == "parquet":
        try:
            arrow = importlib.import_module("keff.logs._pyarrow")
        except ImportError as error:
            raise missing_extra(error, "a Parquet file") from error
        arrow.write(draft, rows)
        return
    with draft.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _open(path: Path, opening: Opening, *, texts: bool) -> _Source:
    log = find_log(path, opening.format)
    info = log.info(path)
    how = reading(info, opening)
    notes: list[Note] = []
    parts = one_part(log.questions(path, texts=texts, tell=notes.append), opening.part)
    return _Source(log, info, how, (_answered(path, one, how) for one in parts), notes)


def _answered(path: Path, question: Question, how: Reading) -> Question:
    if question.form == "scores":
        raise LogError(f"{path}: it holds correctness only, and no answers to keep")
    return with_answers(question, how)


def _item(question: Question, source: _Source) -> Item:
    messages = () if question.question is None else ({"role": "user", "content": question.question},)
    meta = dict(question.meta)
    if question.confidences:
        meta[CONFIDENCES] = list(question.confidences)
    space: Any = source.reading.space
    return Item(question.id, messages, question.gold, space, question.cluster, meta)


def _paths(question: Question) -> Iterator[Drawn]:
    counts: dict[int, int] = {}
    for place, answer in enumerate(question.answers):
        slot = question.slots[place] if question.slots else 0
        index = counts[slot] = counts.get(slot, -1) + 1
        tokens = question.tokens[place] if question.tokens else 0.0
        done = Completion(
            text=question.texts[place] if question.texts else answer or "",
            finish="length" if question.truncated and question.truncated[place] else "stop",
            tokens=int(tokens) if tokens == tokens else 0,
        )
        yield Drawn(question.id, slot, index, 0, path_seed(0, question.id, slot, index), done)


def _judged(question: Question, source: _Source) -> Iterator[Judged]:
    k = len(question.answers)
    keys = keys_of(question, k, source.reading.key)
    labelled = question.correct is not None or question.gold is not None
    correct = correct_of(question, k, source.reading) if labelled else [None] * k
    for place, (answer, key) in enumerate(zip(question.answers, keys, strict=True)):
        rule = question.rules[place] if question.rules else "recorded" if key is not None else "no answer"
        right = correct[place]
        yield Judged(answer, key, 0 if right and key is None else right, rule)


def _rows(source: _Source, counts: list[int], *, packed: bool) -> Iterator[dict[str, Any]]:
    about = {"task": source.info.task, "answer_space": source.reading.space, "model": source.info.model}
    for question in source.questions:
        counts[0] += 1
        counts[1] += len(question.answers)
        judged = list(_judged(question, source))
        lists = {
            "all_answers": list(question.answers),
            "all_keys": [one.key for one in judged],
            "all_correct": None if judged and judged[0].correct is None else [one.correct for one in judged],
            "all_tokens": _numbers(question.tokens),
            "all_confidences": _numbers(question.confidences),
            "all_rules": [one.rule for one in judged],
            "all_texts": question.texts and list(question.texts),
            "all_truncated": question.truncated and list(question.truncated),
            "slots": question.slots and list(question.slots),
        }
        row = {
            "id": question.id,
            "question": question.question,
            "gold_answer": question.gold,
            "cluster": question.cluster or None,
            **{name: values for name, values in lists.items() if values is not None},
            **about,
        }
        meta = {name: value for name, value in question.meta.items() if name not in KNOWN}
        yield _packed(row, meta) if packed else row | meta


def _numbers(values: tuple[float, ...] | None) -> list[float | None] | None:
    return None if values is None else [value if value == value else None for value in values]


def _packed(row: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any]:
    """Put what has no column of one type into one column of JSON."""
    if not isinstance(row["gold_answer"], str | None):
        meta = meta | {"gold_answer": row["gold_answer"]}
        row = row | {"gold_answer": None}
    return row | {"meta": json.dumps(meta, ensure_ascii=False, default=str)}
