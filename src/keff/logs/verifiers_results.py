"""results.jsonl of verifiers before its version 1: one rollout per line."""

from __future__ import annotations

from keff.logs.parts.field_table import FieldReader, FieldTable
from keff.logs.parts.foreign import ScoreOptions
from keff.logs.parts.values import at, inner, spoken


class VerifiersResults(ScoreOptions, FieldReader):
    """Reader of the ``results.jsonl`` that ``vf-eval --save-results`` leaves beside its ``metadata.json``.

    Rollouts of one example are its paths. Their score is the reward, a sum of several functions' values: it
    is right or wrong where it is 0 or 1, or by ``threshold``; ``scorer`` names one of the functions (of the
    ``metrics``). Rollouts with an error are left out and counted.
    """

    name = "verifiers_results"
    table = FieldTable(
        signs=("example_id", "prompt", "completion", "reward"),
        fields={
            "id": "example_id",
            "question": lambda row: spoken(at(row, "prompt/-1", "prompt")),
            "gold_answer": "answer",
            "text": lambda row: spoken(at(row, "completion/-1", "completion")),
            "tokens": "token_usage/output_tokens",
            "prompt_tokens": "token_usage/input_tokens",
            "seconds": "timing/generation/duration",
            "truncated": lambda row: int(row.get("is_truncated") is True),
        },
        scores=lambda row: {**inner(row, "metrics"), "reward": row.get("reward")},
        main=lambda _: "reward",
        left_out={"has an error": "error"},
        # Short answers are alike; rows that are, with what each took, are one path.
        own=lambda row: row.get("trajectory_id") or (row if row.get("timing") else None),
    )


log = VerifiersResults
