"""Review files of EvalScope (reviews/MODEL/TASK_SUBSET.jsonl): one sample per line, repeats by group."""

from __future__ import annotations

from pathlib import Path

from keff.errors import LogError
from keff.log import LogInfo, Tell
from keff.logs.parts.foreign import Canonical, Graded, PathReader, UsableRows, spoken, verdict
from keff.logs.parts.lines import FirstLine, Row, json_lines
from keff.logs.parts.values import at, inner, known_task
from keff.narrow import Fields, items, only


class EvalScope(FirstLine, Graded, PathReader):
    """Reader of EvalScope's reviews, since version 1.0.

    Samples of one ``group_id`` are the repeats of a question. The answer is the extracted prediction, and the
    score the main one, or the metric that ``scorer`` names; from ``threshold`` on it is right.
    """

    name = "evalscope"
    fields = ("index", "sample_score")

    def info(self, path: Path) -> LogInfo:
        """Return the log's metadata."""
        return LogInfo(known_task(path.stem), model=path.parent.name or None)

    def collect(self, kept: UsableRows, path: Path, tell: Tell) -> None:
        """Collect every sample."""
        rows = list(json_lines(path, tell))
        grouped = [at(row, "sample_score/group_id") is not None for _, row in rows]
        if any(grouped) and not all(grouped):
            other = rows[grouped.index(not grouped[0])][0]
            raise LogError(f"{other}: some lines have a group_id and others have none")
        for where, row in rows:
            kept.add(where, self._canonical(where, row), where)

    def _canonical(self, where: str, row: Row) -> Canonical:
        sample = inner(row, "sample_score")
        score = inner(sample, "score")
        if row.get("index") is None:
            raise LogError(f"{where}: lacks index")
        return {
            "id": at(row, "sample_score/group_id", "index"),
            "path": sample.get("sample_id"),
            "answer": score.get("extracted_prediction"),
            "text": score.get("prediction"),
            **self._verdict(where, score),
            "gold_answer": row.get("target"),
            "question": spoken((items(row.get("input")) or [row.get("input")])[-1]),
        }

    def _verdict(self, where: str, score: Fields) -> Canonical:
        values = inner(score, "value")
        main = score.get("main_score_name")
        name = self.scorer or (str(main) if main in values else only(values))
        if name is None or name not in values:
            lacking = f"there is no score {name!r}" if name else "no one of its scores is the main one"
            raise LogError(
                f"{where}: {lacking}: name one with --format evalscope:scorer=NAME, of "
                f"{', '.join(sorted(values)) or 'none'}"
            )
        return verdict(f"{where}: the score {name}", values[name], self.threshold)


log = EvalScope
