"""Stop the epochs of a sample in inspect_ai once its answer is settled, by one of keff's policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from keff import answers
from keff.errors import UsageError
from keff.plugins import import_extra
from keff.policy import Stop, View, for_one_model, parse_policy


class ScoredEpoch(Protocol):
    """Protocol of a scored epoch in inspect_ai (its ``Score``)."""

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


class StopWhenSettled:
    """An early stopping manager of inspect_ai: ``Task(..., epochs=16, early_stopping=StopWhenSettled())``.

    Epochs are the paths of a question. Before an epoch begins, ``policy`` looks at the answers of the epochs
    before it, in their order, up to the first that is not done; when it stops, the epoch and all later ones
    are skipped. Epochs that run at that moment go on, so with ``max_samples`` above the number of samples
    little is saved. ``answer_space`` says which answers are one vote, ``scorer`` whose answer counts (None:
    the first). An epoch without an answer abstains. Raises UsageError for a policy that needs more than
    answers, PolicyError for one that is none.
    """

    def __init__(
        self,
        policy: str = "adaptive_consistency:0.95",
        answer_space: str = "exact",
        scorer: str | None = None,
    ) -> None:
        self._policy, self._scorer = parse_policy(policy), scorer
        for_one_model(self._policy, "an evaluation")
        if self._policy.needs - {"answers"}:
            raise UsageError(f"{policy} needs more than answers, and a scorer gives only answers")
        self._space = answers.space(answer_space)
        self._keys: dict[str | int, dict[int, str | None]] = {}
        self._stops: dict[str | int, Stop] = {}
        self._saved = 0

    async def start_task(self, task: object, samples: Sequence[object], epochs: int) -> str:
        """Begin an evaluation; returns this manager's name."""
        del task, samples, epochs
        self._keys, self._stops, self._saved = {}, {}, 0
        return f"keff {self._policy.spec}"

    async def schedule_sample(self, id: str | int, epoch: int) -> object | None:
        """Return inspect_ai's ``EarlyStop`` where a sample's vote is settled, else None."""
        stop = self._stops.get(id)
        if stop is None:
            decision = self._policy.decide(View(self._votes(id)))
            if not isinstance(decision, Stop):
                return None
            stop = self._stops[id] = decision
        self._saved += 1
        told = {"answer": stop.answer, "weight": stop.weight, "kind": stop.kind}
        inspect = import_extra("inspect_ai.util", "early stopping of inspect_ai")
        return inspect.EarlyStop(id=id, epoch=epoch, reason=stop.reason, metadata=told)

    async def complete_sample(self, id: str | int, epoch: int, scores: Mapping[str, ScoredSample]) -> None:
        """Record the answer of a finished epoch."""
        name = self._scorer if self._scorer is not None else next(iter(scores), None)
        if name is not None and name not in scores:
            raise UsageError(f"there is no scorer {name}: there are {', '.join(scores)}")
        answer = None if name is None else scores[name].score.answer
        key = self._space.key(answer) if answer else None
        self._keys.setdefault(id, {})[epoch] = key

    async def complete_task(self) -> dict[str, object]:
        """Return the epochs saved, for inspect_ai's log."""
        return {
            "policy": self._policy.spec,
            "samples_stopped": len(self._stops),
            "epochs_skipped": self._saved,
        }

    def _votes(self, id: str | int) -> tuple[str | None, ...]:
        """Return the answer keys of a sample's leading finished epochs."""
        known, votes = self._keys.get(id, {}), list[str | None]()
        while len(votes) + 1 in known:
            votes.append(known[len(votes) + 1])
        return tuple(votes)
