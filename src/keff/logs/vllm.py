"""Outputs of vLLM's offline engine: ``RequestOutput`` objects written as JSON, in lines or in an array."""

from __future__ import annotations

from keff.logs.parts.field_table import FieldReader, FieldTable
from keff.logs.parts.foreign import mark
from keff.logs.parts.lines import Row
from keff.logs.parts.values import at, inner, number_or_none
from keff.narrow import items
from keff.protocol.reply import is_cut, is_end, is_fault


class VllmOutputs(FieldReader):
    """Reader of dumped ``RequestOutput`` (``vars`` of it and of its ``outputs``, or the same by hand).

    The outputs of a request are paths, and requests of one prompt are one question: request numbers are
    counted anew in every session, so a question is named by a hash of its prompt. The confidence of a path is
    its mean log-probability. There are no gold answers in such a file.
    """

    name = "vllm"
    table = FieldTable(
        signs=("request_id", "outputs/0/text"),
        paths="outputs",
        fields={
            "id": lambda row: mark(row.get("prompt") or items(row.get("prompt_token_ids"))),
            "question": "prompt",
            "text": "outputs/text",
            "tokens": lambda row: _tokens(row) or None,
            "prompt_tokens": lambda row: len(items(row.get("prompt_token_ids"))) or None,
            "cached_tokens": "num_cached_tokens",
            "confidence": lambda row: _confidence(row),
            "truncated": lambda row: int(is_cut(at(row, "outputs/finish_reason"))),
        },
        left_out={"did not finish": lambda row: _is_unfinished(inner(row, "outputs"))},
    )


def _tokens(row: Row) -> int:
    return len(items(at(row, "outputs/token_ids")))


def _confidence(row: Row) -> float | None:
    """Return the mean log-probability of an output's tokens."""
    total, tokens = number_or_none(at(row, "outputs/cumulative_logprob")), _tokens(row)
    return total / tokens if total is not None and tokens else None


def _is_unfinished(output: Row) -> bool:
    return not is_end(output.get("finish_reason")) or is_fault(output)


log = VllmOutputs
