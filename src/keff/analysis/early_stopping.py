"""Stop the epochs of a sample in inspect_ai once its answer is settled, by one of keff's policies."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from keff import answers
from keff.errors import UsageError
from keff.plugins import missing_extra
from keff.policy import Policy, Stop, View, for_one_model, parse_policy


class ScoredEpoch(Protocol):
    """What inspect_ai gives of a scored sample (its ``Score``)."""

    @property
    def answer(self) -> str | None:
        """The answer that the scorer took from the completion."""
        ...


class ScoredSample(Protocol):
    """One scorer's score of a sample (inspect_ai's ``SampleScore``)."""

    @property
    def score(self) -> ScoredEpoch:
        """The score."""
        ...


@dataclass(slots=True)
class StopWhenSettled:
    """An early stopping manager of inspect_ai: ``Task(..., epochs=16, early_stopping=StopWhenSettled())``.

    Epochs are the paths of a question. Before an epoch begins, ``policy`` looks at the answers of the epochs
    before it, in their order, up to the first that is not done; when it stops, the epoch and all later ones
    are skipped. Epochs that run at that moment go on, so with ``max_samples`` above the number of samples
    little is saved. ``answer_space`` says which answers are one vote, ``scorer`` whose answer counts (None:
    the first). An epoch without an answer abstains. Raises UsageError for a policy that needs more than
    answers, PolicyError for one that is none.
    """

    policy: str = "adaptive_consistency:0.95"
    answer_space: str = "exact"
    scorer: str | None = None
    _policy: Policy = field(init=False, repr=False)
    _keys: dict[str | int, dict[int, str | None]] = field(
        init=False, repr=False, default_factory=dict[str | int, dict[int, str | None]]
    )
    _stops: dict[str | int, Stop] = field(init=False, repr=False, default_factory=dict[str | int, Stop])
    _saved: int = field(init=False, repr=False, default=0)

    def __post_init__(self) -> None:
        self._policy = parse_policy(self.policy)
        for_one_model(self._policy, "an evaluation")
        if self._policy.needs - {"answers"}:
            raise UsageError(f"{self.policy} needs more than answers, which is all that a scorer gives")
        answers.space(self.answer_space)

    async def start_task(self, task: object, samples: Sequence[object], epochs: int) -> str:
        """Begin an evaluation; returns the name of the manager."""
        del task, samples, epochs
        self._keys, self._stops, self._saved = {}, {}, 0
        return f"keff {self._policy.spec}"

    async def schedule_sample(self, id: str | int, epoch: int) -> object | None:
        """Return inspect_ai's ``EarlyStop`` where the answer of a sample is settled, else None."""
        stop = self._stops.get(id)
        if stop is None:
            decision = self._policy.decide(View(self._votes(id)))
            if not isinstance(decision, Stop):
                return None
            stop = self._stops[id] = decision
        self._saved += 1
        told = {"answer": stop.answer, "weight": stop.weight, "kind": stop.kind}
        return _early_stop(id=id, epoch=epoch, reason=stop.reason, metadata=told)

    async def complete_sample(self, id: str | int, epoch: int, scores: Mapping[str, ScoredSample]) -> None:
        """Take note of the answer of an epoch."""
        name = self.scorer if self.scorer is not None else next(iter(scores), None)
        if name is not None and name not in scores:
            raise UsageError(f"there is no scorer {name}: there are {', '.join(scores)}")
        answer = None if name is None else scores[name].score.answer
        key = answers.space(self.answer_space).key(answer) if answer else None
        self._keys.setdefault(id, {})[epoch] = key

    async def complete_task(self) -> dict[str, object]:
        """Return what was saved."""
        return {
            "policy": self._policy.spec,
            "samples_stopped": len(self._stops),
            "epochs_skipped": self._saved,
        }

    def _votes(self, id: str | int) -> tuple[str | None, ...]:
        """Return the keys of a sample's epochs up to the first that is not done."""
        known, votes = self._keys.get(id, {}), list[str | None]()
        while len(votes) + 1 in known:
            votes.append(known[len(votes) + 1])
        return tuple(votes)


def _early_stop(**told: object) -> object:
    try:
        util: Any = importlib.import_module("inspect_ai.util")
    except ImportError as error:
        raise missing_extra(error, "early stopping of inspect_ai") from error
    return util.EarlyStop(**told)
