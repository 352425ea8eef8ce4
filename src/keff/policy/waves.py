"""Any stopping rule, several paths at a time: ``wave=M``, or waves of given sizes, ``wave=3+5``."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keff.errors import PolicyError
from keff.policy.log_odds import Answering
from keff.policy.over import Over, WeighingAsRule
from keff.policy.spec import MAX_CAP
from keff.policy.view import Everywhere, Policy, Sample, Stop, Vectorised, View, Weighting
from keff.stats.voting.draws import Draws


def everywhere(rule: Policy, draws: Draws, how: str) -> NDArray[Any]:
    """Return what a rule asks for after each prefix, past earlier stops too [n, R, cap + 1]."""
    if not isinstance(rule, Vectorised):
        raise PolicyError(f"{rule.spec} cannot be replayed {how}: it decides on one vote at a time")
    return rule.everywhere(draws) if isinstance(rule, Everywhere) else rule.ahead(draws)


@dataclass(frozen=True)
class InWaves(Over):
    """A rule that is asked only after whole waves; the last of ``sizes`` holds for all that follow.

    Where no vote can stop it within a wave it asks for more, as it does without waves.
    """

    sizes: tuple[int, ...]

    @property
    def spec(self) -> str:
        """The string that makes this policy again."""
        return self.spelled(wave=self.sizes[0] if len(self.sizes) == 1 else "+".join(map(str, self.sizes)))

    @property
    def monotone(self) -> bool:
        """A vote for the leader may change where the waves end."""
        return False

    def decide(self, view: View) -> Sample | Stop:
        """Decide at the end of a wave; in the middle of one ask for the rest of it.

        The waves are walked from the first vote on, so that a vote that is taken up again ends where it would
        have ended.
        """
        keys, n = view.keys[: self.cap], 0
        for turn in count():
            decision = self.rule.decide(View(keys[:n], view.confidence[:n]))
            if isinstance(decision, Stop):
                return decision
            n += min(max(decision.m, self._size(turn)), self.cap - n)
            if n > len(keys):
                return Sample(n - len(keys))
        raise AssertionError("a policy stops at the cap")

    def ahead(self, draws: Draws) -> NDArray[Any]:
        """Decide at the end of every wave of every order."""
        cap = self.cap
        asked = np.asarray(everywhere(self.rule, draws, "in waves"))
        flat = asked.reshape(-1, cap + 1)
        out, at = np.zeros(flat.shape, np.int16), np.zeros(len(flat), np.int64)
        going = np.arange(len(flat))
        for turn in count():
            ahead = flat[going, at[going]].astype(np.int64)
            step = np.minimum(np.maximum(ahead, self._size(turn)), cap - at[going]) * (ahead > 0)
            out[going, at[going]] = step
            at[going] += step
            going = going[step > 0]
            if not len(going):
                break
        return out.reshape(asked.shape)

    def _size(self, turn: int) -> int:
        return self.sizes[min(turn, len(self.sizes) - 1)]


class VoteInWaves(WeighingAsRule, InWaves):
    """The same for a rule that weighs its votes."""


def in_waves(rule: Policy, wave: object) -> Policy:
    """Return a rule that draws ``wave`` paths at least at once, or waves of sizes such as ``3+5``.

    Raises PolicyError for a size outside 1 to 256.
    """
    parts = wave.split("+") if isinstance(wave, str) else [wave]
    sizes = tuple(whole(rule, "wave", int(p) if isinstance(p, str) and p.isdigit() else p) for p in parts)
    return VoteInWaves(rule, sizes) if isinstance(rule, Weighting | Answering) else InWaves(rule, sizes)


def whole(rule: Policy, name: str, value: object) -> int:
    """Return an option as an integer from 1 to 256, or raise PolicyError."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_CAP:
        raise PolicyError(f"policy {rule.spec}: {name} must be an integer from 1 to {MAX_CAP}, not {value}")
    return value
