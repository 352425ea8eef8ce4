"""Instance-level results in the Every Eval Ever schema: one JSON line per sample and attempt."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from keff.errors import LogError
from keff.log import NoteSink, ignore
from keff.logs.parts.field_table import FieldReader, FieldTable, milliseconds_at
from keff.logs.parts.lines import Row
from keff.logs.parts.values import at
from keff.narrow import entries, items, only


class EveryEvalEver(FieldReader):
    """Reader of ``instance_level_eval`` files, versions 0.1 and 0.2.

    Lines of one sample and model are its paths. The answer is the value that the last terminal attribution
    extracted; where none is, or it is the whole output, the output is read as a completion. Only runs of
    one turn are votes on an answer: multi-turn and agentic samples count by correctness. Lines with an error
    are left out and counted.
    """

    name = "every_eval_ever"
    table = FieldTable(
        # Of every line, whatever the version.
        signs=("evaluation_id", "model_id", "evaluation_name", "sample_id", "evaluation"),
        fields={
            "id": "sample_id",
            "model": "model_id",
            "answer": lambda row: _answer_of(row.get("answer_attribution")),
            "text": lambda row: only(_texts(at(row, "output/raw"))),
            "correct": "evaluation/is_correct",
            "score": "evaluation/score",
            "gold_answer": lambda row: _gold(at(row, "input/reference")),
            "question": "input/raw",
            "tokens": "token_usage/output_tokens",
            "prompt_tokens": "token_usage/input_tokens",
            "seconds": milliseconds_at("performance/latency_ms"),
        },
        left_out={"has an error": "error"},
        # Nothing numbers the repeats of a sample: a line that was written twice looks like two.
        own=lambda _: None,
        task="evaluation_name",
        model="model_id",
    )

    def rows_in(self, path: Path, tell: NoteSink = ignore) -> Iterator[tuple[str, Row]]:
        """Yield (place, row) of every line; raises LogError for several evaluations, or outputs, in one."""
        first = None
        for where, row in super().rows_in(path, tell):
            first = first or row.get("evaluation_name")
            if row.get("evaluation_name") != first:
                both = f"{first} and {row.get('evaluation_name')}"
                raise LogError(f"{where}: it holds the evaluations {both}: put each into its own file")
            if len(outputs := _texts(at(row, "output/raw"))) > 1:
                raise LogError(
                    f"{where}: one score for {len(outputs)} outputs: one line per output is needed"
                )
            yield where, row


def _texts(value: object) -> list[str]:
    return [str(text) for text in items(value) or filter(None, [value])]


def _gold(value: object) -> object:
    texts = _texts(value)
    return texts if len(texts) > 1 else only(texts)


def _answer_of(value: object) -> object:
    """Return the value extracted by the last terminal attribution."""
    terminal = [entry for entry in entries(value) if entry.get("is_terminal")]
    return terminal[-1].get("extracted_value") if terminal else None


log = EveryEvalEver
