"""Rollouts of NeMo Gym (ng_collect_rollouts): one per line, numbered within their task."""

from __future__ import annotations

from keff.logs.parts.field_table import FieldReader, FieldTable
from keff.logs.parts.foreign import ScoreOptions, mark, said_in
from keff.logs.parts.lines import Row
from keff.logs.parts.values import at, inner, spoken


class NemoGym(ScoreOptions, FieldReader):
    """Reader of the ``rollouts.jsonl`` that NeMo Gym collects.

    Rollouts of one ``_ng_task_index``, else of equal requests, are the paths of a question. The answer is the
    one that the environment extracted, else the response is read as a completion. A reward of 0 or 1 says
    wrong or right, another one from ``threshold`` on.
    """

    name = "nemo_gym"
    table = FieldTable(
        signs=("responses_create_params", "response", "reward"),
        fields={
            "id": lambda row: _task(row),
            "path": "_ng_rollout_index",
            "question": lambda row: spoken(
                at(row, "responses_create_params/input/-1", "responses_create_params/input")
            ),
            "gold_answer": ("expected_answer", "ground_truth"),
            "answer": "extracted_answer",
            "text": lambda row: at(said_in(inner(row, "response")), "-1/text"),
            "tokens": "response/usage/output_tokens",
            "prompt_tokens": "response/usage/input_tokens",
            "cached_tokens": "response/usage/input_tokens_details/cached_tokens",
            "truncated": lambda row: int(at(row, "response/incomplete_details/reason") is not None),
        },
        scores=lambda row: {"reward": row.get("reward")},
        model="response/model",
        own=lambda row: at(row, "response/id") or row,
    )


def _task(row: Row) -> object:
    """Return the number of a task; of equal requests where none is written."""
    number = row.get("_ng_task_index")
    return mark(row.get("responses_create_params")) if number is None else number


log = NemoGym
