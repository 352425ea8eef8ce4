"""The vote weighted by confidence, which goes with every stopping rule."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from keff.policy.over import Over
from keff.policy.view import Need, Sample, Stop, View
from keff.stats.votes import CONFIDENCE, FloatArray, IntArray
from keff.stats.voting.draws import Draws


@dataclass(frozen=True)
class ConfidenceVote(Over):
    """Stop as ``rule`` does, then answer by the vote weighted by exp(confidence / temperature).

    CISC's softmax over the paths of an item (arXiv 2502.06233): its denominator is common to all answers
    and cancels. A path whose confidence is NaN abstains from this vote.
    """

    temperature: float
    confidence: str = CONFIDENCE

    @property
    def spec(self) -> str:
        """The string that makes this policy again."""
        named = {} if self.confidence == CONFIDENCE else {"confidence": self.confidence}
        return self.spelled(weight="confidence", temperature=self.temperature, **named)

    @property
    def needs(self) -> frozenset[Need]:
        """What a view must carry."""
        return frozenset[Need]({*self.rule.needs, "confidence"})

    def decide(self, view: View) -> Sample | Stop:
        """Decide as the stopping rule does; the answer of a stop is the weighted one."""
        decision = self.rule.decide(view)
        if isinstance(decision, Sample):
            return decision
        view.check_confidences(min(len(view.keys), self.cap), self)
        answer, share = self._vote(view)
        return Stop(answer, share, "weighted_share", decision.reason)

    def _vote(self, view: View) -> tuple[str | None, float]:
        voters = [
            (key, c)
            for key, c in zip(view.keys[: self.cap], view.confidence, strict=False)
            if key is not None and c == c
        ]
        if not voters:
            return None, 0.0
        top = max(c for _, c in voters)
        totals: dict[str, float] = {}
        for key, c in voters:
            totals[key] = totals.get(key, 0.0) + math.exp((c - top) / self.temperature)
        answer = max(totals, key=totals.__getitem__)
        return answer, totals[answer] / sum(totals.values())

    def weights(self, draws: Draws, stop: IntArray) -> FloatArray:
        """Return exp(confidence / temperature), scaled by item, of the paths before ``stop``."""
        logits = draws.rated(self.confidence) / self.temperature
        top = np.nanmax(logits, axis=(1, 2), keepdims=True, initial=-np.inf)
        raw = np.where(np.isnan(logits), 0.0, np.exp(np.nan_to_num(logits - top)))
        return raw * (np.arange(draws.cap) < stop[..., None])
