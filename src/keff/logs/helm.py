"""Runs of HELM (scenario_state.json): the completions of an instance over outputs and trials are paths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from keff.errors import LogError
from keff.log import LogInfo, Question, Tell, unheard
from keff.logs.parts.lines import whole_json
from keff.logs.parts.values import inner, known_task, number_or_none, optional_text
from keff.narrow import fields, items
from keff.records import Note

# Scenarios of HELM that keff knows as a task by another name.
ALIASES = {"gsm": "gsm8k"}

Entry = Mapping[str, object]


@dataclass(slots=True)
class _InstancePaths:
    """What was drawn for one instance, one entry per path."""

    first: Entry
    texts: list[str] = field(default_factory=list[str])
    slots: list[int] = field(default_factory=list[int])
    tokens: list[float | None] = field(default_factory=list[float | None])
    seconds: list[float | None] = field(default_factory=list[float | None])
    cut: list[int] = field(default_factory=list[int])


class Helm:
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
        if not path.is_file():
            return "not a file"
        with path.open("rb") as file:
            # The specification of the adapter comes first in what HELM writes.
            head = file.read(4096)
        if not head.lstrip().startswith(b"{") or b'"adapter_spec"' not in head:
            return 'no object with "adapter_spec"'
        return None

    def info(self, path: Path) -> LogInfo:
        """Return what the log says about itself."""
        spec = inner(_content(path), "adapter_spec")
        scenario = path.resolve().parent.name.split(":")[0].split(",")[0]
        task = known_task(ALIASES.get(scenario, scenario))
        return LogInfo(task, model=optional_text(spec.get("model_deployment") or spec.get("model")))

    def questions(self, path: Path, *, texts: bool = False, tell: Tell = unheard) -> Iterator[Question]:
        """Read question by question; see ``Log.questions``."""
        left_out: Counter[str] = Counter()
        groups: dict[str, _InstancePaths] = {}
        seen: set[tuple[object, ...]] = set()
        states = _content(path).get("request_states")
        if not items(states):
            raise LogError(f"{path}: request_states must be a list of requests")
        for number, value in enumerate(items(states)):
            _add(f"{path}: request {number}", fields(value), groups, seen, left_out)
        if not groups and left_out:
            reasons = ", ".join(f"{count} times it {reason}" for reason, count in left_out.items())
            raise LogError(f"{path}: no request can be used: {reasons}")
        for name, paths in groups.items():
            yield _question(name, paths, texts=texts)
        for reason, count in left_out.items():
            tell(Note("left_out", f"{count} requests are left out: each {reason}"))


def _content(path: Path) -> Entry:
    return fields(whole_json(path))


def _add(
    where: str,
    state: Entry,
    groups: dict[str, _InstancePaths],
    seen: set[tuple[object, ...]],
    left_out: Counter[str],
) -> None:
    """Add the completions of one request to those of its instance."""
    if state.get("reference_index") is not None or state.get("request_mode") is not None:
        raise LogError(f"{where}: it scores options one by one: a vote needs a generation")
    name = inner(state, "instance").get("id")
    if not isinstance(name, str) or not name:
        raise LogError(f"{where}: its instance has no id")
    trial = state.get("train_trial_index")
    if isinstance(trial, bool) or not isinstance(trial, int) or trial < 0:
        raise LogError(f"{where}: train_trial_index must be an integer, not {str(trial)[:40]!r}")
    reason = _unusable(state)
    if reason:
        left_out[reason] += 1
        return
    mark = (name, trial, str(inner(state, "request").get("random")))
    if mark in seen:
        raise LogError(f"{where}: the instance {name!r} was asked twice in one trial")
    seen.add(mark)
    paths = groups.setdefault(name, _InstancePaths(state))
    if inner(state, "instance") != inner(paths.first, "instance"):
        raise LogError(f"{where}: the instance {name!r} differs from an earlier one of that id")
    seconds = number_or_none(inner(state, "result").get("request_time"))
    for completion in items(inner(state, "result").get("completions")):
        _draw(where, fields(completion), paths)
        paths.slots.append(trial)
        paths.seconds.append(seconds)


def _unusable(state: Entry) -> str | None:
    if inner(state, "instance").get("perturbation") is not None:
        return "asks a perturbed instance"
    result = inner(state, "result")
    if not result:
        return "has no result"
    if result.get("success") is not True:
        return "failed"
    return None if items(result.get("completions")) else "has no completion"


def _draw(where: str, completion: Entry, paths: _InstancePaths) -> None:
    text = completion.get("text")
    if not isinstance(text, str):
        raise LogError(f"{where}: a completion has no text")
    paths.texts.append(text)
    tokens = items(completion.get("tokens"))
    paths.tokens.append(float(len(tokens)) if tokens else None)
    paths.cut.append(int(inner(completion, "finish_reason").get("reason") == "length"))


def _question(name: str, paths: _InstancePaths, *, texts: bool) -> Question:
    return Question(
        id=name,
        answers=tuple(text or None for text in paths.texts),
        gold=_gold(paths.first),
        tokens=_known(paths.tokens),
        seconds=_known(paths.seconds),
        slots=tuple(paths.slots) if len(set(paths.slots)) > 1 else None,
        truncated=tuple(paths.cut),
        question=optional_text(inner(paths.first, "instance", "input").get("text")),
        texts=tuple(paths.texts) if texts else None,
        form="completions",
    )


def _known(values: list[float | None]) -> tuple[float, ...] | None:
    known = tuple(value for value in values if value is not None)
    return known if len(known) == len(values) else None


def _gold(state: Entry) -> object:
    """Return the texts of the correct references; their letters, where the completion is to be a letter."""
    references = [fields(value) for value in items(inner(state, "instance").get("references"))]
    right = [
        text
        for reference in references
        if "correct" in items(reference.get("tags"))
        if isinstance(text := inner(reference, "output").get("text"), str)
    ]
    letters = inner(state, "output_mapping")
    if letters:
        right = [letter for letter, text in letters.items() if text in right]
    return right[0] if len(right) == 1 else right or None


def log() -> Helm:
    """Make the reader."""
    return Helm()
