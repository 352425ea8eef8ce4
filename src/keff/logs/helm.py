"""Runs of HELM (scenario_state.json): the completions of an instance over outputs and trials are paths."""

from __future__ import annotations

from pathlib import Path

from keff.errors import LogError
from keff.log import LogInfo, Tell
from keff.logs.parts.foreign import PathReader, UsableRows
from keff.logs.parts.lines import member_names, whole_json
from keff.logs.parts.values import at, inner, known_task, optional_text
from keff.narrow import Fields, entries, items, only
from keff.protocol.reply import is_cut

# Scenarios of HELM that keff knows as a task by another name.
ALIASES = {"gsm": "gsm8k"}

Entry = Fields


class Helm(PathReader):
    """Reader of the ``scenario_state.json`` that ``helm-run`` leaves in each run's folder.

    Repeats are ``num_outputs`` completions per request and ``num_trials`` requests per instance; in-context
    examples drawn anew (``num_train_trials``) are prompts of their own, so they are slots. HELM scores an
    instance once for all its completions, so they are read again, by the task or by ``--answer-space``,
    against the references tagged correct (their letters, where options have letters). Perturbed instances
    and failed requests are left out and counted; options scored one by one are no votes, and are refused.
    """

    name = "helm"

    def refuses(self, path: Path) -> str | None:
        """Return why this is not a file of the format, or None when it is."""
        return None if "adapter_spec" in member_names(path) else 'no object with "adapter_spec"'

    def info(self, path: Path) -> LogInfo:
        """Return the log's metadata."""
        spec = inner(whole_json(path), "adapter_spec")
        scenario = path.resolve().parent.name.split(":")[0].split(",")[0]
        task = known_task(ALIASES.get(scenario, scenario))
        return LogInfo(task, model=optional_text(at(spec, "model_deployment", "model")))

    def collect(self, kept: UsableRows, path: Path, tell: Tell) -> None:
        """Collect the completions of usable requests."""
        del tell
        seen: set[tuple[object, ...]] = set()
        states = entries(at(whole_json(path), "request_states"))
        if not states:
            raise LogError(f"{path}: request_states must be a list of requests")
        trials = {str(state.get("train_trial_index")) for state in states}
        for number, state in enumerate(states):
            _add(kept, f"{path}: request {number}", state, seen, several=len(trials) > 1)


def _add(kept: UsableRows, where: str, state: Entry, seen: set[tuple[object, ...]], *, several: bool) -> None:
    """Collect the completions of one request."""
    if state.get("reference_index") is not None or state.get("request_mode") is not None:
        raise LogError(f"{where}: it scores options one by one: a vote needs a generation")
    instance, result = inner(state, "instance"), inner(state, "result")
    name, trial = instance.get("id"), state.get("train_trial_index")
    if not isinstance(name, str) or not name:
        raise LogError(f"{where}: its instance has no id")
    if isinstance(trial, bool) or not isinstance(trial, int) or trial < 0:
        raise LogError(f"{where}: train_trial_index must be an integer, not {str(trial)[:40]!r}")
    reason = _unusable(state)
    if reason:
        kept.left_out[reason] += 1
        return
    mark = (name, trial, str(at(state, "request/random")))
    if mark in seen:
        raise LogError(f"{where}: the instance {name!r} was asked twice in one trial")
    seen.add(mark)
    for place, completion in enumerate(entries(result.get("completions"))):
        if not isinstance(completion.get("text"), str):
            raise LogError(f"{where}: a completion has no text")
        row = {
            "id": name,
            "question": at(instance, "input/text"),
            "gold_answer": _gold(state),
            "text": completion["text"],
            "slot": trial if several else None,
            "tokens": len(items(completion.get("tokens"))) or None,
            "seconds": result.get("request_time"),
            "truncated": int(_is_cut(at(completion, "finish_reason/reason"))),
        }
        kept.add(where, row, [mark, place])


def _is_cut(reason: object) -> bool:
    """Return whether a completion broke off; HELM writes ``unknown`` where a server gives no reason."""
    return reason != "unknown" and is_cut(reason)


def _unusable(state: Entry) -> str | None:
    if at(state, "instance/perturbation") is not None:
        return "asks a perturbed instance"
    result = inner(state, "result")
    if not result:
        return "has no result"
    if result.get("success") is not True:
        return "failed"
    return None if items(result.get("completions")) else "has no completion"


def _gold(state: Entry) -> object:
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
