"""Output files of batches (OpenAI's Batch API, ``vllm run-batch`` and others): one request per line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from keff.log import LogInfo, NoteSink, ignore
from keff.logs.parts.field_table import FieldReader, FieldTable
from keff.logs.parts.foreign import said_in
from keff.logs.parts.lines import Row
from keff.logs.parts.values import at, inner
from keff.records import Note

# A ``custom_id`` that numbers the repeats of a question, such as q7#2 or q7-repeat-2.
#
# Never request-2, gsm8k/2 or gsm8k-sample-2: there the number is the question's.
WORDS = "repeat|rep|epoch|trial|path|attempt|try|run|rollout|draw|vote"
NUMBERED = re.compile(rf"(.+?)(?:#|[-_/:.](?:{WORDS})[-_]?)(\d+)", re.IGNORECASE)
# A number at the end that may count repeats, or questions: q7-2, q7_sample_2.
ENDED = re.compile(r"(.*\d.*?)([-_/:.]|[-_/:.][a-z]+[-_]?)(\d+)", re.IGNORECASE)


class OpenaiBatch(FieldReader):
    """Reader of batch output files, of chat completions, completions and responses.

    The choices of a request are paths, and so are requests whose ``custom_id`` is one name with numbers
    after ``#`` or a word such as ``-repeat-``, where all are written like that; that is noted.
    The file holds no gold answers. Failed requests are left out and counted.
    """

    name = "openai_batch"
    table = FieldTable(
        signs=("custom_id", ("response", "error")),
        paths="choices",
        fields={
            "id": "name",
            "text": "choices/text",
            "truncated": "choices/truncated",
        },
        # Usage is of the whole request: with several choices nobody knows the share of each.
        of_call={
            "tokens": ("response/body/usage/completion_tokens", "response/body/usage/output_tokens"),
            "prompt_tokens": ("response/body/usage/prompt_tokens", "response/body/usage/input_tokens"),
        },
        # OpenAI writes what failed to a file of its own; servers like it leave it here.
        left_out={
            "failed": lambda row: row.get("error") or at(row, "response/status_code") not in (None, 200)
        },
        own="custom_id",
    )

    def info(self, path: Path) -> LogInfo:
        """Return the log's metadata."""
        models = (at(row, "response/body/model") for _, row in super().rows_in(path))
        return LogInfo(model=next((str(model) for model in models if model), None))

    def rows_in(self, path: Path, tell: NoteSink = ignore) -> Iterator[tuple[str, Row]]:
        """Yield (place, row) of every request, with the name of its question and its choices."""
        rows = list(super().rows_in(path, tell))
        names = [str(row.get("custom_id")) for _, row in rows]
        repeats = list(map(NUMBERED.fullmatch, names))
        if all(repeats):
            names = [found[1] for found in repeats if found]
            text = "each custom_id is taken as a question and the number of its repeat"
            tell(Note("numbered_requests", text))
        elif example := _may_be_repeat(names):
            was, better = example
            text = (
                "each custom_id is a question of its own; if the last number counts its repeats, write "
                f"{was} as {better}"
            )
            tell(Note("unnumbered_requests", text))
        for (where, row), name in zip(rows, names, strict=True):
            yield where, row | {"name": name, "choices": said_in(inner(row, "response", "body"))}


def _may_be_repeat(names: Sequence[str]) -> tuple[str, str] | None:
    """Return an id and how it would number a repeat, where all ids end in the same numbers; else None."""
    numbers: dict[str, set[str]] = {}
    for name in names:
        if (found := ENDED.fullmatch(name)) is None:
            return None
        numbers.setdefault(found[1], set()).add(found[3])
    first, *others = numbers.values()
    if len(first) < 2 or not others or any(own != first for own in others):
        return None
    found = ENDED.fullmatch(names[0])
    return None if found is None else (names[0], f"{found[1]}#{found[3]}")


log = OpenaiBatch
