"""Instance-level results in the Every Eval Ever schema: one JSON line per sample and attempt."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from keff.errors import LogError
from keff.log import LogInfo, Question, Tell, unheard
from keff.logs.parts.foreign import Canonical, LeftOut, questions_of
from keff.logs.parts.lines import FirstLine, Row, first_row, json_lines
from keff.logs.parts.values import at, known_task, optional_text, thousandth
from keff.narrow import entries, items
from keff.records import Note, stable_hash


class EveryEvalEver(FirstLine):
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
        """Return what the log says about itself."""
        row = first_row(path)
        if isinstance(row, str):
            return LogInfo()
        return LogInfo(known_task(str(row["evaluation_name"])), model=optional_text(row["model_id"]))

    def questions(self, path: Path, *, texts: bool = False, tell: Tell = unheard) -> Iterator[Question]:
        """Read question by question; see ``Log.questions``."""
        left_out, again = LeftOut(), set[str]()

        def rows(heard: Tell) -> Iterator[tuple[str, Canonical]]:
            first: object = None
            seen: set[str] = set()
            left_out.clear()
            for where, row in json_lines(path, heard):
                name = row.get("evaluation_name")
                first = first or name
                if name != first:
                    raise LogError(
                        f"{where}: it holds the evaluations {first} and {name}: put each into its own file"
                    )
                if row.get("error"):
                    left_out["has an error"] += 1
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
        left_out.say("lines", tell)


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
    return texts[0] if len(texts) == 1 else texts or None


def _extracted(value: object) -> object:
    """Return what the last attribution extracted that is terminal."""
    terminal = [entry for entry in entries(value) if entry.get("is_terminal")]
    return terminal[-1].get("extracted_value") if terminal else None


log = EveryEvalEver
