"""Which task of keff another tool means by a name."""

from __future__ import annotations

from collections.abc import Mapping

from keff import plugins
from keff.errors import TaskError
from keff.records import Item

ALIASES = {
    "minerva_math": "math",
    "hendrycks_math": "math",
    "math500": "math",
    "math_500": "math",
    "ai2_arc": "arc_challenge",
    "hotpot_qa": "hotpotqa",
    "trivia_qa": "triviaqa",
    "crux_eval": "cruxeval",
}


def known_task(name: str) -> str | None:
    """Return the task that a name such as ``gsm8k_cot`` or ``inspect_evals/gsm8k`` begins with."""
    plain = name.rpartition("/")[2].lower().replace("-", "_")
    for word, task in sorted(
        [*ALIASES.items(), *((name, name) for name in plugins.names("task"))], reverse=True
    ):
        if plain == word or plain.startswith((f"{word}_", f"{word}@")):
            return task if task not in ("jsonl", "starter") else None
    return None


def item_of(task: str, row: Mapping[str, object]) -> Item | None:
    """Return the item that a data row of another tool is in a task, or None when its columns do not fit."""
    try:
        return plugins.load("task", task).to_item(row)
    except TaskError:
        return None
