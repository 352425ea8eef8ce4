"""A run folder of keff: manifest.json and paths.sqlite."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from threading import local
from typing import Any
from weakref import finalize

import numpy as np

from keff import plugins
from keff.errors import KeffError
from keff.log import NAMED, LogInfo, Question, Tell, unheard
from keff.logs.parts.bulk import Bulk, ColumnOptions, Int, Names, PartsLog, RowColumns, text_hash
from keff.logs.parts.coding import NotPlainError
from keff.logs.parts.values import real
from keff.narrow import Object, items, text
from keff.policy.weighting import LOGPROBS
from keff.records import Item, Note
from keff.sampling import RUN_FILE
from keff.sampling.manifest import Manifest
from keff.sampling.store import Run, Scored
from keff.sampling.store.rows import item_of
from keff.stats.votes import RATING_SECONDS
from keff.task import ScoredText, Task
from keff.usercode import VERIFIER

# Rating and its seconds of a path that no verifier rated.
UNRATED = (float("nan"), float("nan"))
# Begins the fields in which an import keeps with an item what is no number of a path here: confidences, which
# are no log-probabilities, among them.
PREFIX = "recorded_"
# These fields of a question: one value per path, in the order of the log.
RECORDED = ("confidences", "branches", "seconds", "prompt_tokens", "cached_tokens")


def _question(run: Run, item: Item, paths: Sequence[Scored], *, texts: bool) -> Question:
    ratings: list[tuple[float, float]] = []
    if VERIFIER in run.manifest.code:
        known = run.ratings(item.id)
        ratings = [known.get((one.path.slot, one.path.index, one.path.attempt), UNRATED) for one in paths]
    judged = [path.judged for path in paths if path.judged is not None]
    labels = [reading.correct for reading in judged]
    return Question(
        id=item.id,
        answers=tuple(reading.answer for reading in judged),
        gold=item.gold,
        keys=tuple(reading.key for reading in judged),
        correct=None if None in labels else tuple(int(label or 0) for label in labels),
        **_counted(item, paths),
        branches=tuple(map(str, items(item.meta.get(f"{PREFIX}branches")))) or None,
        confidences=tuple(value for value, _ in ratings) if ratings else _confidences(item, paths),
        slots=tuple(path.path.slot for path in paths),
        rules=tuple(reading.rule for reading in judged),
        truncated=tuple(int(path.completion.finish == "length") for path in paths),
        cluster=item.cluster,
        question=str(item.messages[-1].get("content", "")) if item.messages else None,
        texts=tuple(path.completion.text for path in paths) if texts else None,
        meta=_other_confidences(paths, ratings)
        | {name: value for name, value in item.meta.items() if name.removeprefix(PREFIX) not in RECORDED},
    )


def _counted(item: Item, paths: Sequence[Scored]) -> dict[str, Any]:
    """Return tokens and seconds of each path; None where they were not counted, as in an imported log.

    Of a prompt all is billed with the first path of a request.
    """
    counts = {name: tuple(float(getattr(one.completion, name)) for one in paths) for name in MEASURES}
    return {
        name: values if any(values) else _numbers(item, name, len(paths)) for name, values in counts.items()
    }


def _confidences(item: Item, paths: Sequence[Scored]) -> tuple[float, ...] | None:
    """Return mean log-probabilities (NaN where a path has none), or an imported log's confidences."""
    summaries = [path.completion.logprobs for path in paths]
    if any(summaries):
        return tuple(summary.mean if summary else np.nan for summary in summaries)
    return _numbers(item, "confidences", len(paths))


def _other_confidences(paths: Sequence[Scored], ratings: Sequence[tuple[float, float]]) -> Object:
    """Return other confidences (log-probabilities beside an imported one), and rating seconds."""
    summaries = [path.completion.logprobs for path in paths]
    named: dict[str, list[float | None]] = {
        name: [summary and getattr(summary, kind) for summary in summaries]
        for name, kind in list(LOGPROBS.items())[not ratings :]
    }
    if ratings:
        named[RATING_SECONDS] = [None if spent != spent else spent for _, spent in ratings]
    return {NAMED + name: values for name, values in named.items() if {*values} - {None}}


def _numbers(item: Item, name: str, size: int) -> tuple[float, ...] | None:
    """Return a column that an import recorded for the paths; None where absent or of another length."""
    values = items(item.meta.get(PREFIX + name))
    if len(values) != size:
        return None
    return tuple(float("nan") if value is None else real(value) for value in values)


def _launched(run: Run, item: str) -> list[Scored]:
    """Return an item's completed paths in launch order."""
    order = {slot: place for place, slot in enumerate(run.manifest.config.templates)}
    return sorted(run.kept(item), key=lambda one: (one.path.index, order.get(one.path.slot, 0)))


class _Single:
    """Rereads single questions of a run; each thread has its own connection."""

    def __init__(self, path: Path) -> None:
        self._path, self._mine = path, local()

    def question(self, item: str) -> Question:
        """Return the question of an item id."""
        run = getattr(self._mine, "run", None)
        if not isinstance(run, Run):
            run = self._mine.run = Run.open(self._path)
            finalize(self, run.close)
        return _question(run, run.item(item), _launched(run, item), texts=True)


class _Judge:
    """Scores stored paths that lack a score, after a full disk or a killed writer.

    The task is made from the manifest, which names no code. Where it cannot be made without, or cannot judge,
    such paths are left out and counted.
    """

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._task: Task | None = None
        self._cannot = bool(manifest.code.keys() - {VERIFIER})
        self.left_out = 0

    def _load(self) -> Task:
        options = dict(self._manifest.task_options)
        name = options.pop("name", self._manifest.config.task.get("name"))
        return plugins.load("task", str(name), **options)

    def judged(self, item: Item, paths: Sequence[Scored]) -> list[Scored]:
        """Return the paths with scores; those that cannot be scored are left out."""
        result = [path if path.judged else replace(path, judged=self._read(item, path)) for path in paths]
        kept = [path for path in result if path.judged]
        self.left_out += len(result) - len(kept)
        return kept

    def _read(self, item: Item, path: Scored) -> ScoredText | None:
        if self._cannot:
            return None
        try:
            task = self._task = self._task or self._load()
            return task.judge(item, path.completion)
        except KeffError:
            self._cannot = True
            return None


def _missing(manifest: Manifest, done: int) -> str:
    """Return what an interrupted run still lacks, with a remedy; "" for a complete one."""
    if done >= manifest.n:
        return ""
    again = "import" if manifest.config.imported else "sample"
    return f"{done:,} of {manifest.n:,} questions; run {again} again, which goes on where it stopped"


# Paths that are fetched at a time.
BLOCK = 8192

# Of these 0 stands for unknown; a question has them where one of its paths does.
MEASURES = ("tokens", "prompt_tokens", "cached_tokens", "seconds")

COLUMNS = ("item", "path", "slot", "answer", "key", "rule", "correct", *MEASURES, *LOGPROBS)


def run_parts(run: Run, question: Callable[[str], Question], most: int) -> Iterator[Bulk]:
    """Yield columns of completed paths in launch order, about ``most`` paths at a time.

    Raises NotPlainError where they must be read singly: while a path is not scored or was completed twice,
    where only some are labelled, where questions of unequal length differ in what is known of them, and for
    imports with fields of their own. ``question`` reads the question of an id again.
    """
    columns, ids, rows = RowColumns(), Names(), run.item_rows()
    try:
        while block := list(islice(rows, max(1, most // run.manifest.k))):
            if any(f'"{PREFIX}' in row[-1] for row in block):
                raise NotPlainError
            places, sizes, paths = _launched_columns(run, [row[0] for row in block])
            if not places:
                continue
            items, lists = [item_of(block[place]) for place in places], _jsonl_columns(paths, sizes)
            if len(run.manifest.config.templates) > 1:
                lists["slots"] = paths["slot"]
            columns.lists_of(lists)
            names = {"id": [item.id for item in items], "gold_answer": [item.gold for item in items]}
            columns.add_names(names | {"cluster": [item.cluster for item in items]}, len(items))
            columns.asked.extend(text_hash(_asked(item)) for item in items)
            columns.add_sizes(sizes)
            for name, values in lists.items():
                columns.add_lists(name, [values])
            ids.add(columns.ids)
            further = {name: np.array(paths[name], np.float64) for name in [*LOGPROBS][1:]}
            part = columns.part(lambda place: question(ids[place]))
            yield replace(part, named={name: own for name, own in further.items() if not np.isnan(own).all()})
    except (TypeError, ValueError, OverflowError, RecursionError):
        # A damaged file holds any kind of value anywhere: the reading question by question says where.
        raise NotPlainError from None


def _launched_columns(run: Run, items: Sequence[str]) -> tuple[list[int], Int, dict[str, Sequence[Any]]]:
    """Return the items with completed paths, their numbers, and path columns in launch order."""
    found: list[Sequence[Any]] = list(chain.from_iterable(run.paths(COLUMNS, BLOCK, items)))
    place = {item: place for place, item in enumerate(items)}
    rank = {slot: place for place, slot in enumerate(run.manifest.config.templates)}
    marks = np.array(
        [(place[item], path, rank.get(slot, 0)) for item, path, slot, *_ in found], np.int64
    ).reshape(-1, 3)
    order = np.lexsort(marks.T[::-1])
    marks = marks[order]
    if bool((marks[1:] == marks[:-1]).all(axis=1).any()):
        raise NotPlainError
    places, sizes = np.unique(marks[:, 0], return_counts=True)
    columns = zip(*(found[at] for at in order.tolist()), strict=True)
    return places.tolist(), sizes.astype(np.int64), dict(zip(COLUMNS, columns, strict=False))


def _jsonl_columns(paths: Mapping[str, Sequence[Any]], sizes: Int) -> dict[str, Sequence[Any]]:
    """Return path columns under the JSONL's names."""
    if None in paths["rule"]:
        raise NotPlainError
    lists = {f"all_{name}s": paths[name] for name in ("answer", "key", "rule")}
    if set(paths["correct"]) != {None}:
        lists["all_correct"] = paths["correct"]
    if set(paths["logprob_mean"]) != {None}:
        lists["all_confidences"] = paths["logprob_mean"]
    for name in MEASURES:
        known = np.logical_or.reduceat(np.asarray(array("d", paths[name])) != 0, np.cumsum(sizes) - sizes)
        if bool(known.all()):
            lists[f"all_{name}"] = paths[name]
        elif bool(known.any()) and np.ptp(sizes):
            raise NotPlainError
    return lists


def _asked(item: Item) -> str:
    """Return all messages of a question as text, since a conversation's last one alone is no question."""
    return "\n".join(str(message.get("content", "")) for message in item.messages)


class RunLog(PartsLog):
    """Reader of run folders; paths come in launch order."""

    name = "run"

    def refuses(self, path: Path) -> str | None:
        """Return why this is not a file of the format, or None when it is."""
        if not path.is_dir():
            return "not a folder"
        return None if (path / RUN_FILE).is_file() else f"the folder has no {RUN_FILE}"

    def info(self, path: Path) -> LogInfo:
        """Return the log's metadata."""
        with Run.open(path) as run:
            manifest, integrity, done = run.manifest, run.integrity(), run.done()
        config = manifest.config
        model = config.engine.get("model")
        return LogInfo(
            task=text(config.task.get("name")),
            space=text(config.task.get("space")),
            model=None if model is None else str(model),
            config=config.model_dump(mode="json"),
            options=manifest.task_options,
            code=manifest.code,
            stopped=manifest.policy is not None,
            integrity=integrity,
            scored=not config.imported and "scorer" not in manifest.code,
            missing=_missing(manifest, done),
            parameters=manifest.parameters,
        )

    def parts(self, path: Path, how: ColumnOptions) -> Iterator[Bulk]:
        """Yield the columns of a run part by part; see ``PartsLog``."""
        single = _Single(path)
        with Run.open(path) as run:
            if how.read is not None or run.manifest.policy is not None or VERIFIER in run.manifest.code:
                raise NotPlainError
            yield from run_parts(run, single.question, how.most // 64)

    def questions(self, path: Path, *, texts: bool = False, tell: Tell = unheard) -> Iterator[Question]:
        """Yield the questions one by one; see ``Log.questions``."""
        with Run.open(path) as run:
            judge = _Judge(run.manifest)
            for item in run.items():
                kept = judge.judged(item, _launched(run, item.id))
                if kept:
                    yield _question(run, item, kept, texts=texts)
            if judge.left_out:
                text = f"{judge.left_out} paths are not scored yet and are left out: run keff score {path}"
                tell(Note("not_scored", text))


log = RunLog
