"""What the paths' confidences are worth: ``confidences`` of `keff analyze --json`."""

from __future__ import annotations

from dataclasses import dataclass

from keff.records import Interval, Result, number


@dataclass(frozen=True, slots=True)
class ReliabilityPoint(Result):
    """The mean chance of being right that was given to ``paths`` paths, and the share of them that is."""

    chance: float
    right: float
    paths: int


@dataclass(frozen=True, slots=True)
class ConfidenceWorth(Result):
    """What one confidence of the paths tells, and what it is worth.

    ``auc`` is how often the right one of two paths of a question has the higher confidence. ``pays`` says
    whether ``policy``, the best rule that reads it, is more accurate than rules that do not at the same mean
    number of paths, by ``gain_at_equal_cost`` (posterior of the decision, calibrated on other questions);
    False where its AUC is surely close to one half, None where the record does not show it. ``sign`` is -1
    where lower is better; ``unknown`` paths have none and are ordinary votes. ``reliability`` are
    cross-fitted chances in up to ten groups of equal size.
    """

    name: str
    auc: Interval
    pays: bool | None
    gain_at_equal_cost: Interval | None
    policy: str | None
    sign: int = 1
    unknown: int = 0
    reliability: tuple[ReliabilityPoint, ...] = ()

    def sentence(self, *, several: bool) -> str:
        """Return it in one sentence, named where there are ``several``."""
        without = f"; {self.unknown} paths without one are ordinary votes" if self.unknown else ""
        return f"{self._said(several=several)}{without}."

    def _said(self, *, several: bool) -> str:
        whose = f"Your confidences {self.name!r}" if several else "Your confidences"
        about = f"AUC {number(self.auc.value)}"
        gain = self.gain_at_equal_cost
        if self.pays is False:
            return f"{whose} carry nothing here ({about})"
        if gain is None and self.reliability:
            worth = "what they are worth is measured up to the recorded number of paths only"
            return f"{whose} tell right paths from wrong ones ({about}): {worth}"
        if gain is None:
            return f"{whose} do not tell right from wrong on so few questions (AUC {self.auc.text()})"
        turned = ", lower is better" if self.sign < 0 else ""
        lo, hi = gain.limits or (gain.value, gain.value)
        points = f"{100 * gain.value:+.1f} [{100 * lo:+.1f}, {100 * hi:+.1f}] points at equal cost"
        verb = "pay" if self.pays else "may pay"
        return f"{whose} {verb}: {points} ({self.policy}; {about}{turned})"
