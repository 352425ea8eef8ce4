"""Instance-level results in the Every Eval Ever schema: one JSON line per sample and attempt."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from keff.errors import LogError
from keff.log import LogInfo, Question, Tell, unheard
from keff.logs.parts.foreign import Canonical, questions_of
from keff.logs.parts.lines import FirstLine, Row, first_row, json_lines
from keff.logs.parts.values import inner, known_task, optional_text
from keff.narrow import entries, items
from keff.records import Note, stable_hash

# Fields of every line, whatever the version: by these the format is known.


class EveryEvalEver(FirstLine):
    """Reader of ``instance_level_eval`` files, versions 0.1 and 0.2.

    Lines of one sample and model are its paths. The answer is the value that the last terminal attribution
    extracted; where none is, or it is the whole output, the output is read as a completion. Only runs of
    one turn are votes on an answer: multi-turn and agentic samples count by correctness. Lines with an error
    are left out and counted.
    """

    name = "every_eval_ever"
    fields = ("evaluation_id", "model_id", "evaluation_name", "sample_id", "evaluation")

    def info(self, path: Path) -> LogInfo:
        """Return what the log says about itself."""
        row = first_row(path)
        if isinstance(row, str):
            return LogInfo()
        return LogInfo(known_task(str(row["evaluation_name"])), model=optional_text(row["model_id"]))

    def questions(self, path: Path, *, texts: bool = False, tell: Tell = unheard) -> Iterator[Question]:
        """Read question by question; see ``Log.questions``."""
        failed: set[str] = set()
        again: set[str] = set()

        def rows(heard: Tell) -> Iterator[tuple[str, Canonical]]:
            first: str | None = None
            seen: set[str] = set()
            for where, row in json_lines(path, heard):
                name = str(row.get("evaluation_name"))
                first = first or name
                if name != first:
                    raise LogError(
                        f"{where}: it holds the evaluations {first} and {name}: put each into its own file"
                    )
                if row.get("error"):
                    failed.add(where)
                    continue
                # Nothing numbers the repeats of a sample: a line that was written twice looks like two.
                mark = stable_hash(row)
                if mark in seen:
                    again.add(where)
                seen.add(mark)
                yield where, _canonical(where, row)

        yield from questions_of(rows, tell, texts=texts)
        if again:
            text = f"{len(again)} lines repeat an earlier line in every field; each counts as a path"
            tell(Note("identical_lines", text))
        if failed:
            tell(Note("left_out", f"{len(failed)} lines are left out: each has an error"))


def _canonical(where: str, row: Row) -> Canonical:
    missing = [name for name in ("sample_id", "evaluation") if row.get(name) is None]
    if missing:
        raise LogError(f"{where}: lacks {', '.join(missing)}")
    outputs = _texts(inner(row, "output").get("raw"))
    if len(outputs) > 1:
        raise LogError(f"{where}: one score for {len(outputs)} outputs: one line per output is needed")
    latency = inner(row, "performance").get("latency_ms")
    return {
        "id": row["sample_id"],
        "model": row.get("model_id"),
        "answer": _extracted(row.get("answer_attribution")),
        "text": outputs[0] if outputs else None,
        "correct": inner(row, "evaluation").get("is_correct"),
        "score": inner(row, "evaluation").get("score"),
        "gold_answer": _gold(inner(row, "input").get("reference")),
        "question": inner(row, "input").get("raw"),
        "tokens": inner(row, "token_usage").get("output_tokens"),
        "prompt_tokens": inner(row, "token_usage").get("input_tokens"),
        "seconds": latency / 1000 if isinstance(latency, int | float) else None,
    }


def _texts(value: object) -> list[str]:
    return [str(text) for text in items(value) or filter(None, [value])]


def _gold(value: object) -> object:
    texts = _texts(value)
    return texts[0] if len(texts) == 1 else texts or None


def _extracted(value: object) -> object:
    """Return what the last attribution extracted that is terminal."""
    terminal = [entry for entry in entries(value) if entry.get("is_terminal")]
    return terminal[-1].get("extracted_value") if terminal else None


log = EveryEvalEver
