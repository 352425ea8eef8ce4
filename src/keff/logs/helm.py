"""Runs of HELM (scenario_state.json): the completions of an instance over outputs and trials are paths."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from keff.errors import LogError
from keff.log import LogInfo, NoteSink, ignore
from keff.logs.parts.field_table import FieldReader, FieldTable, value_of
from keff.logs.parts.lines import Row, whole_json
from keff.logs.parts.values import at, inner, known_task, optional_text
from keff.narrow import entries, items, only
from keff.protocol.reply import is_cut

# Scenarios of HELM that keff knows as a task by another name.
ALIASES = {"gsm": "gsm8k"}


class Helm(FieldReader):
    """Reader of the ``scenario_state.json`` that ``helm-run`` leaves in each run's folder.

    Repeats are ``num_outputs`` completions per request and ``num_trials`` requests per instance; in-context
    examples drawn anew (``num_train_trials``) are prompts of their own, so they are slots. HELM scores an
    instance once for all its completions, so they are read again, by the task or by ``--answer-space``,
    against the references tagged correct (their letters, where options have letters). Perturbed instances
    and failed requests are left out and counted; options scored one by one are no votes, and are refused.
    """

    name = "helm"
    table = FieldTable(
        names=("adapter_spec",),
        rows="request_states",
        paths="result/completions",
        fields={
            "id": "instance/id",
            "question": "instance/input/text",
            "gold_answer": lambda row: _gold(row),
            "text": "result/completions/text",
            "slot": "slot",
            "tokens": lambda row: len(items(at(row, "result/completions/tokens"))) or None,
            "seconds": "result/request_time",
            "truncated": lambda row: int(_is_cut(at(row, "result/completions/finish_reason/reason"))),
        },
        left_out={
            "asks a perturbed instance": "instance/perturbation",
            "has no result": lambda row: not inner(row, "result"),
            "failed": lambda row: at(row, "result/success") is not True,
            "has no completion": lambda row: not at(row, "result/completions"),
        },
        own="request",
    )

    def info(self, path: Path) -> LogInfo:
        """Return the log's metadata."""
        spec = inner(whole_json(path), "adapter_spec")
        scenario = path.resolve().parent.name.split(":")[0].split(",")[0]
        task = known_task(ALIASES.get(scenario, scenario))
        return LogInfo(task, model=optional_text(at(spec, "model_deployment", "model")))

    def rows_in(self, path: Path, tell: NoteSink = ignore) -> Iterator[tuple[str, Row]]:
        """Yield (place, row) of every request, with its slot and what tells it from others."""
        rows = list(super().rows_in(path, tell))
        several = len({str(row.get("train_trial_index")) for _, row in rows}) > 1
        seen: set[tuple[object, ...]] = set()
        for where, row in rows:
            if row.get("reference_index") is not None or row.get("request_mode") is not None:
                raise LogError(f"{where}: it scores options one by one: a vote needs a generation")
            trial = row.get("train_trial_index")
            if isinstance(trial, bool) or not isinstance(trial, int) or trial < 0:
                raise LogError(f"{where}: train_trial_index must be an integer, not {str(trial)[:40]!r}")
            request = (str(at(row, "instance/id")), trial, str(at(row, "request/random")))
            if not any(value_of(row, source) for source in self.table.left_out.values()):
                if request in seen:
                    raise LogError(f"{where}: the instance {request[0]!r} was asked twice in one trial")
                seen.add(request)
            yield where, row | {"request": request, "slot": trial if several else None}


def _is_cut(reason: object) -> bool:
    """Return whether a completion broke off; HELM writes ``unknown`` where a server gives no reason."""
    return reason != "unknown" and is_cut(reason)


def _gold(state: Row) -> object:
    """Return the texts of the correct references, or their letters for multiple choice."""
    references = entries(at(state, "instance/references"))
    right = [
        text
        for reference in references
        if "correct" in items(reference.get("tags"))
        if isinstance(text := at(reference, "output/text"), str)
    ]
    letters = inner(state, "output_mapping")
    if letters:
        right = [letter for letter, text in letters.items() if text in right]
    return right if len(right) > 1 else only(right)


log = Helm
