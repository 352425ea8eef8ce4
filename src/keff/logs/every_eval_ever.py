"""Instance-level results in the Every Eval Ever schema: one JSON line per sample and attempt."""

from __future__ import annotations

from pathlib import Path

from keff.errors import LogError
from keff.log import LogInfo, Tell
from keff.logs.parts.foreign import Canonical, PathReader, UsableRows
from keff.logs.parts.lines import FirstLine, Row, head_row, json_lines
from keff.logs.parts.values import at, known_task, optional_text, thousandth
from keff.narrow import entries, items, only
from keff.records import Note, stable_hash


class EveryEvalEver(FirstLine, PathReader):
    """Reader of ``instance_level_eval`` files, versions 0.1 and 0.2.

    Lines of one sample and model are its paths. The answer is the value that the last terminal attribution
    extracted; where none is, or it is the whole output, the output is read as a completion. Only runs of
    one turn are votes on an answer: multi-turn and agentic samples count by correctness. Lines with an error
    are left out and counted.
    """

    name = "every_eval_ever"
    # Of every line, whatever the version.
    fields = ("evaluation_id", "model_id", "evaluation_name", "sample_id", "evaluation")

    def info(self, path: Path) -> LogInfo:
        """Return the log's metadata."""
        row = head_row(path)
        return LogInfo(known_task(str(row["evaluation_name"])), model=optional_text(row["model_id"]))

    def collect(self, kept: UsableRows, path: Path, tell: Tell) -> None:
        """Collect the lines without an error."""
        first, seen, again = head_row(path)["evaluation_name"], set[str](), 0
        for where, row in json_lines(path, tell):
            if row.get("evaluation_name") != first:
                both = f"{first} and {row.get('evaluation_name')}"
                raise LogError(f"{where}: it holds the evaluations {both}: put each into its own file")
            if row.get("error"):
                kept.left_out["has an error"] += 1
                continue
            # Nothing numbers the repeats of a sample: a line that was written twice looks like two.
            mark = stable_hash(row)
            again += mark in seen
            seen.add(mark)
            kept.add(where, _canonical(where, row), where)
        if again:
            text = f"{again} lines repeat an earlier line in every field; each counts as a path"
            tell(Note("identical_lines", text))


def _canonical(where: str, row: Row) -> Canonical:
    missing = [name for name in ("sample_id", "evaluation") if row.get(name) is None]
    if missing:
        raise LogError(f"{where}: lacks {', '.join(missing)}")
    outputs = _texts(at(row, "output/raw"))
    if len(outputs) > 1:
        raise LogError(f"{where}: one score for {len(outputs)} outputs: one line per output is needed")
    return {
        "id": row["sample_id"],
        "model": row.get("model_id"),
        "answer": _extracted(row.get("answer_attribution")),
        "text": outputs[0] if outputs else None,
        "correct": at(row, "evaluation/is_correct"),
        "score": at(row, "evaluation/score"),
        "gold_answer": _gold(at(row, "input/reference")),
        "question": at(row, "input/raw"),
        "tokens": at(row, "token_usage/output_tokens"),
        "prompt_tokens": at(row, "token_usage/input_tokens"),
        "seconds": thousandth(at(row, "performance/latency_ms")),
    }


def _texts(value: object) -> list[str]:
    return [str(text) for text in items(value) or filter(None, [value])]


def _gold(value: object) -> object:
    texts = _texts(value)
    return texts if len(texts) > 1 else only(texts)


def _extracted(value: object) -> object:
    """Return the value extracted by the last terminal attribution."""
    terminal = [entry for entry in entries(value) if entry.get("is_terminal")]
    return terminal[-1].get("extracted_value") if terminal else None


log = EveryEvalEver
