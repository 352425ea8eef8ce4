"""Parquet of inspect_ai's samples_df(): one row per sample and epoch, scores but no answers."""

from __future__ import annotations

import re
from pathlib import Path

from keff.log import LogInfo, NoteSink
from keff.logs.parquet import columns_of, is_parquet, rows_of
from keff.logs.parts.foreign import PathReader, ScoreOptions, UsableRows
from keff.logs.parts.inspect_log import Scores
from keff.logs.parts.tabled import first_of
from keff.logs.parts.values import known_task, optional_text

# Columns that every data frame of samples has: by these the format is known.
FIELDS = ("sample_id", "id", "epoch", "target")
# One column per scorer; those that only explain a score end with one of the three words.
SCORE = re.compile(r"score_(?!.*_(?:explanation|metadata|answer)$)(.+)")


class InspectSamples(ScoreOptions, PathReader):
    """Reader of a data frame of samples, as ``samples_df(...).to_parquet(...)`` writes it.

    It keeps no answers, so estimates are those of correctness alone; the log itself has them. A column
    ``model`` (of ``EvalModel``) tells several models apart. Rules of scores are those of the log's reader.
    """

    name = "inspect_samples"

    def refuses(self, path: Path) -> str | None:
        """Return why this is not a file of the format, or None when it is."""
        if not is_parquet(path):
            return "not a Parquet file"
        names = columns_of(path)
        lacking = [name for name in FIELDS if name not in names]
        if lacking or not any(SCORE.fullmatch(name) for name in names):
            return f"it has no columns {', '.join(lacking) or 'score_NAME'}"
        return None

    def info(self, path: Path) -> LogInfo:
        """Return the log's metadata."""
        names = [name for name in ("task_name", "task", "model") if name in columns_of(path)]
        row = first_of(rows_of(path, names)) if names else {}
        task = optional_text(row.get("task_name") or row.get("task"))
        return LogInfo(known_task(task) if task else None, model=optional_text(row.get("model")))

    def collect(self, kept: UsableRows, path: Path, tell: NoteSink) -> None:
        """Collect the samples that have a score."""
        names = columns_of(path)
        scores = Scores(self.scorer, self.threshold)
        scores.names.update({match[1]: None for name in names if (match := SCORE.fullmatch(name))})
        scores.check()
        column = f"score_{scores.name}"
        further = [name for name in ("error", "model", "input", "output_tokens") if name in names]
        for where, row in rows_of(path, [*FIELDS, column, *further]):
            sample = {
                "id": row["id"],
                "path": row["epoch"],
                "model": row.get("model"),
                "gold_answer": row["target"],
                "question": row.get("input"),
                "tokens": row.get("output_tokens"),
            }
            scores.keep(kept, where, sample, row.get("error"), row[column])
        scores.say(self.name, tell)


log = InspectSamples
