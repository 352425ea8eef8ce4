"""A run folder of keff: manifest.json and paths.sqlite."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from keff import plugins
from keff.errors import KeffError
from keff.log import NAMED, LogInfo, NoteSink, Question, ignore
from keff.logs.parts.values import real
from keff.narrow import Object, items, text
from keff.policy.weighting import LOGPROBS
from keff.records import Item, Note
from keff.sampling import RUN_FILE
from keff.sampling.manifest import Manifest
from keff.sampling.store import Run, ScoredPath
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


def _question(run: Run, item: Item, paths: Sequence[ScoredPath], *, texts: bool) -> Question:
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
        **_counts_by_field(item, paths),
        branches=tuple(map(str, items(item.meta.get(f"{PREFIX}branches")))) or None,
        confidences=tuple(value for value, _ in ratings) if ratings else _confidences(item, paths),
        slots=tuple(path.path.slot for path in paths),
        rules=tuple(reading.rule for reading in judged),
        truncated=tuple(int(path.completion.finish == "length") for path in paths),
        cluster=item.cluster,
        question=_prompt_text(item),
        texts=tuple(path.completion.text for path in paths) if texts else None,
        meta=_other_confidences(paths, ratings)
        | {name: value for name, value in item.meta.items() if name.removeprefix(PREFIX) not in RECORDED},
    )


def _prompt_text(item: Item) -> str | None:
    """Return what is asked: all messages but the system's, for a conversation's last one is no question."""
    said = [str(each.get("content", "")) for each in item.messages if each.get("role") != "system"]
    return "\n".join(said) if said else None


def _counts_by_field(item: Item, paths: Sequence[ScoredPath]) -> dict[str, Any]:
    """Return tokens and seconds of each path; None where they were not counted, as in an imported log.

    Of a prompt all is billed with the first path of a request.
    """
    counts = {name: tuple(float(getattr(one.completion, name)) for one in paths) for name in MEASURES}
    return {
        name: values if any(values) else _numbers(item, name, len(paths)) for name, values in counts.items()
    }


def _confidences(item: Item, paths: Sequence[ScoredPath]) -> tuple[float, ...] | None:
    """Return mean log-probabilities (NaN where a path has none), or an imported log's confidences."""
    summaries = [path.completion.logprobs for path in paths]
    if any(summaries):
        return tuple(summary.mean if summary else np.nan for summary in summaries)
    return _numbers(item, "confidences", len(paths))


def _other_confidences(paths: Sequence[ScoredPath], ratings: Sequence[tuple[float, float]]) -> Object:
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


def _paths_in_order(run: Run, item: str) -> list[ScoredPath]:
    """Return an item's completed paths in launch order."""
    order = {slot: place for place, slot in enumerate(run.manifest.config.templates)}
    return sorted(run.kept(item), key=lambda one: (one.path.index, order.get(one.path.slot, 0)))


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

    def scored_paths(self, item: Item, paths: Sequence[ScoredPath]) -> list[ScoredPath]:
        """Return the paths with scores; those that cannot be scored are left out."""
        result = [path if path.judged else replace(path, judged=self._read(item, path)) for path in paths]
        kept = [path for path in result if path.judged]
        self.left_out += len(result) - len(kept)
        return kept

    def _read(self, item: Item, path: ScoredPath) -> ScoredText | None:
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


# Of these 0 stands for unknown; a question has them where one of its paths does.
MEASURES = ("tokens", "prompt_tokens", "cached_tokens", "seconds")


class RunLog:
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

    def questions(self, path: Path, *, texts: bool = False, tell: NoteSink = ignore) -> Iterator[Question]:
        """Yield the questions one by one; see ``Log.questions``."""
        with Run.open(path) as run:
            judge = _Judge(run.manifest)
            for item in run.items():
                kept = judge.scored_paths(item, _paths_in_order(run, item.id))
                if kept:
                    yield _question(run, item, kept, texts=texts)
            if judge.left_out:
                text = f"{judge.left_out} paths are not scored yet and are left out: run keff score {path}"
                tell(Note("not_scored", text))


log = RunLog
