"""Output files of batches (OpenAI's Batch API, ``vllm run-batch`` and others): one request per line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from keff.log import LogInfo, Tell
from keff.logs.parts.foreign import PathReader, UsableRows, spoken
from keff.logs.parts.lines import Row, first_row, json_lines
from keff.logs.parts.values import at, inner
from keff.narrow import Fields, entries
from keff.protocol.reply import is_cut
from keff.records import Note

# A ``custom_id`` that numbers the repeats of a question, such as q7#2 or q7-repeat-2.
#
# Never request-2, gsm8k/2 or gsm8k-sample-2: there the number is the question's.
NUMBERED = re.compile(r"(.+?)(?:#|[-_](?:repeat|epoch|trial|path|rep)[-_]?)(\d+)")


class OpenaiBatch(PathReader):
    """Reader of batch output files, of chat completions, completions and responses.

    The choices of a request are paths, and so are requests whose ``custom_id`` is one name with numbers
    after ``#`` or a word such as ``-repeat-``, where all are written like that; that is noted.
    The file holds no gold answers. Failed requests are left out and counted.
    """

    name = "openai_batch"

    def refuses(self, path: Path) -> str | None:
        """Return why this is not a file of the format, or None when it is."""
        row = first_row(path)
        if isinstance(row, str):
            return row
        if "custom_id" not in row or not {"response", "error"} & set(row):
            return "the first line has no custom_id with a response"
        return None

    def info(self, path: Path) -> LogInfo:
        """Return the log's metadata."""
        models = (at(row, "response/body/model") for _, row in json_lines(path))
        return LogInfo(model=next((str(model) for model in models if model), None))

    def collect(self, kept: UsableRows, path: Path, tell: Tell) -> None:
        """Collect the choices of requests that did not fail."""
        named = [(where, row, str(row.get("custom_id"))) for where, row in json_lines(path, tell)]
        repeats = [NUMBERED.fullmatch(name) for _, _, name in named]
        grouped = all(repeats)
        for (where, row, name), found in zip(named, repeats, strict=True):
            _add(kept, where, row, found[1] if grouped and found else name)
        if grouped:
            text = "each custom_id is taken as a question and the number of its repeat"
            tell(Note("numbered_requests", text))


def _add(kept: UsableRows, where: str, row: Row, name: str) -> None:
    body = inner(row, "response", "body")
    said = list(_said(body))
    # OpenAI writes what failed to a file of its own; servers like it leave it here.
    if row.get("error") or at(row, "response/status_code") not in (None, 200) or not said:
        kept.left_out["failed" if row.get("error") or not said else "has a status that is not 200"] += 1
        return
    for place, (content, cut) in enumerate(said):
        measured = {
            "tokens": at(body, "usage/completion_tokens", "usage/output_tokens"),
            "prompt_tokens": at(body, "usage/prompt_tokens", "usage/input_tokens"),
        }
        # Usage is of the whole request: with several choices nobody knows the share of each.
        kept.add(
            where,
            {"id": name, "text": content, "truncated": int(cut)} | (measured if len(said) == 1 else {}),
            [row["custom_id"], place],
        )


def _said(body: Fields) -> Iterator[tuple[str, bool]]:
    """Yield each choice's text, and whether it was cut at the token limit."""
    for choice in entries(body.get("choices")):
        yield spoken(at(choice, "message", "text")) or "", is_cut(choice.get("finish_reason"))
    answers = [part for part in entries(body.get("output")) if part.get("type") == "message"]
    if answers:
        yield "".join(spoken(part) or "" for part in answers), body.get("status") == "incomplete"


log = OpenaiBatch
