"""Annotations of AlpacaEval and AlpacaFarm: which of two outputs each annotator prefers."""

from __future__ import annotations

from keff.logs.parts.field_table import FieldReader, FieldTable, number_at
from keff.logs.parts.lines import Row
from keff.logs.parts.values import number_or_none
from keff.narrow import Fields
from keff.records import stable_hash

# What tells one pair of outputs from another: two of the same models may differ.
PAIR = ("instruction", "generator_1", "output_1", "generator_2", "output_2")


def preferred(row: Row) -> str | None:
    """Return which output is preferred: 1, 2 or tie; None for none."""
    preference = number_or_none(row.get("preference"))
    if preference is None:
        return None
    return "tie" if preference == 1.5 else "1" if preference < 1.5 else "2"


class AlpacaEval(FieldReader):
    """Reader of ``annotations.json``: a path is the verdict of one annotator on one pair of outputs.

    The answer is the output preferred, 1 or 2, or ``tie``: a preference of 1 to 2 is for the second from
    above 1.5 on. There is no gold answer. ``scorer=preference`` reads how much the second is preferred
    instead, 0 to 1: its mean is the win rate. Annotations without a preference are left out and counted.
    """

    name = "alpaca_eval"
    table = FieldTable(
        signs=("instruction", "generator_1", "generator_2", "preference"),
        fields={
            "id": lambda row: stable_hash(*(row.get(name) for name in PAIR))[:12],
            "question": "instruction",
            "answer": preferred,
            "slot": ("annotator", "annotator_index"),
            "seconds": number_at("time_per_example"),
        },
        left_out={"has no preference": lambda row: number_or_none(row.get("preference")) is None},
    )

    def __init__(self, scorer: str | None = None) -> None:
        self.scorer = scorer

    def scores_in(self, row: Row) -> Fields:
        """Return how much the second output is preferred, where that is asked for."""
        return {} if self.scorer is None else {"preference": (number_or_none(row.get("preference")) or 1) - 1}


log = AlpacaEval
