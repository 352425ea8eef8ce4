"""Outputs of vLLM's offline engine: ``RequestOutput`` objects written as JSON, in lines or in an array."""

from __future__ import annotations

from pathlib import Path

from keff.log import Tell
from keff.logs.parts.foreign import PathReader, UsableRows, mark
from keff.logs.parts.lines import Row, first_object, objects
from keff.logs.parts.values import number_or_none
from keff.narrow import entries, items
from keff.protocol.reply import is_cut, is_end, is_fault


class VllmOutputs(PathReader):
    """Reader of dumped ``RequestOutput`` (``vars`` of it and of its ``outputs``, or the same by hand).

    The outputs of a request are paths, and requests of one prompt are one question: request numbers are
    counted anew in every session, so a question is named by a hash of its prompt. The confidence of a path is
    its mean log-probability. There are no gold answers in such a file.
    """

    name = "vllm"

    def refuses(self, path: Path) -> str | None:
        """Return why this is not a file of the format, or None when it is."""
        row = first_object(path)
        if isinstance(row, str):
            return row
        if "request_id" not in row or not any("text" in each for each in entries(row.get("outputs"))):
            return "the first object has no request_id with outputs"
        return None

    def collect(self, kept: UsableRows, path: Path, tell: Tell) -> None:
        """Collect the finished outputs."""
        for where, row in objects(path, tell):
            _add(kept, where, row)


def _add(kept: UsableRows, where: str, row: Row) -> None:
    prompt, prompt_ids = row.get("prompt"), items(row.get("prompt_token_ids"))
    for output in entries(row.get("outputs")):
        if not is_end(reason := output.get("finish_reason")) or is_fault(output) or reason == "abort":
            kept.left_out["did not finish"] += 1
            continue
        tokens = len(items(output.get("token_ids")))
        total = number_or_none(output.get("cumulative_logprob"))
        kept.add(
            where,
            {
                "id": mark(prompt if prompt is not None else prompt_ids),
                "question": prompt,
                "text": output.get("text"),
                "tokens": tokens or None,
                "prompt_tokens": len(prompt_ids) or None,
                "cached_tokens": row.get("num_cached_tokens"),
                "confidence": total / tokens if total is not None and tokens else None,
                "truncated": int(is_cut(output.get("finish_reason"))),
            },
            # Request numbers start anew in every session: only a line that is equal in all is the same.
            [row, output],
        )


log = VllmOutputs
