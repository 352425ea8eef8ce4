"""A run folder of keff: manifest.json and paths.sqlite."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from keff.errors import LogError
from keff.log import LogInfo, Question, Tell, unheard
from keff.records import Item
from keff.sampling.manifest import FILE
from keff.sampling.store import Run, Scored

CONFIDENCES = "recorded_confidences"
"""Where an imported item keeps confidences, which are no log-probabilities."""


def _question(item: Item, paths: Sequence[Scored], *, texts: bool) -> Question:
    judged = [path.judged for path in paths]
    if any(one is None for one in judged):
        raise LogError(f"item {item.id} has paths that are not scored yet: run keff score on this run")
    read = [one for one in judged if one is not None]
    labels = [one.correct for one in read]
    return Question(
        id=item.id,
        answers=tuple(one.answer for one in read),
        gold=item.gold,
        keys=tuple(one.key for one in read),
        correct=None if None in labels else tuple(int(label or 0) for label in labels),
        tokens=_tokens(paths),
        confidences=_confidences(item, paths),
        slots=tuple(path.path.slot for path in paths),
        rules=tuple(one.rule for one in read),
        truncated=tuple(int(path.completion.finish == "length") for path in paths),
        cluster=item.cluster,
        question=str(item.messages[-1].get("content", "")) if item.messages else None,
        texts=tuple(path.completion.text for path in paths) if texts else None,
        meta={name: value for name, value in item.meta.items() if name != CONFIDENCES},
    )


def _tokens(paths: Sequence[Scored]) -> tuple[float, ...] | None:
    """Return the tokens of each path; None when nobody counted them, as in an imported log."""
    counts = tuple(float(path.completion.tokens) for path in paths)
    return counts if any(counts) else None


def _confidences(item: Item, paths: Sequence[Scored]) -> tuple[float, ...] | None:
    """Return mean log-probabilities, or the confidences that an imported log had."""
    summaries = [path.completion.logprobs for path in paths]
    if all(summaries):
        return tuple(one.mean for one in summaries if one)
    recorded = item.meta.get(CONFIDENCES)
    return None if recorded is None else tuple(map(float, recorded))


class RunLog:
    """Reader of run folders; paths come in launch order."""

    name = "run"

    def refuses(self, path: Path) -> str | None:
        """Return why this is not a file of the format, or None when it is."""
        if not path.is_dir():
            return "not a folder"
        return None if (path / FILE).is_file() else f"the folder has no {FILE}"

    def info(self, path: Path) -> LogInfo:
        """Return what the log says about itself."""
        with Run.open(path) as run:
            manifest, integrity = run.manifest, run.integrity()
        config = manifest.config
        model = config.engine.get("model")
        return LogInfo(
            task=config.task.get("name"),
            space=config.task.get("space"),
            model=None if model is None else str(model),
            config=config.model_dump(mode="json"),
            options=manifest.task_options,
            integrity=integrity,
        )

    def questions(self, path: Path, *, texts: bool = False, tell: Tell = unheard) -> Iterator[Question]:
        """Read question by question; see ``Log.questions``."""
        del tell
        with Run.open(path) as run:
            order = {slot: place for place, slot in enumerate(run.manifest.config.templates)}
            for item in run.items():
                paths = sorted(
                    run.kept(item.id), key=lambda one: (one.path.index, order.get(one.path.slot, 0))
                )
                if paths:
                    yield _question(item, paths, texts=texts)


def log() -> RunLog:
    """Make the reader."""
    return RunLog()
