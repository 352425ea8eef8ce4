"""Integrity checks on paths: copies, truncated texts, missing answers, failed requests."""

from __future__ import annotations

from keff.records import Note, frozen

# Tokens from which two equal texts of one item are no accident of a short answer.
LONG = 8

# Half of the long texts equal: a seed that is ignored, or temperature zero, never chance.
COLLAPSED = 0.5


@frozen
class Thresholds:
    """Shares above which a run is suspect: identical pairs, truncated, unread, failed."""

    identical: float = COLLAPSED
    truncated: float = 0.05
    unread: float = 0.2
    failed: float = 0.05


# A measurement deserves a warning.
SPOILED = Thresholds()

# Going on would waste money: wider, because the first paths of a run are few.
WASTED = Thresholds(truncated=0.25, unread=0.5, failed=0.25)


@frozen
class Integrity:
    """Counts of suspicious paths in a run.

    ``pairs`` of paths of one item and slot with at least ``LONG`` tokens each, ``identical`` those with
    equal texts; ``paths`` kept, ``truncated`` of them cut at max_tokens, ``unread`` of them without an
    answer; ``failed`` attempts.
    """

    paths: int
    pairs: int
    identical: int
    truncated: int
    unread: int
    failed: int

    def shares(self) -> dict[str, float | None]:
        """Return the shares of identical pairs, truncated and unread paths, and failed attempts."""
        return {
            "identical_pairs": _share(self.identical, self.pairs),
            "truncated": _share(self.truncated, self.paths),
            "unread": _share(self.unread, self.paths),
            "failed": _share(self.failed, self.paths + self.failed),
        }

    def notes(self, temperature: float, most: Thresholds = SPOILED) -> list[Note]:
        """Return a warning for every share above its threshold."""
        shares = {name: value or 0.0 for name, value in self.shares().items()}
        cause = (
            "temperature 0 draws the same path again and again"
            if temperature == 0
            else "the server ignores the seed or the temperature, or answers from a cache"
        )
        told = (
            ("identical_pairs", most.identical, "collapsed_sampling",
             f"of the pairs of longer paths of one question are identical: {cause}"),
            ("truncated", most.truncated, "truncated",
             "of the paths were cut off at max_tokens. Draw longer ones with keff sample --max-tokens"),
            ("unread", most.unread, "unread",
             "of the paths hold no answer that keff finds. Look at the texts: keff read"),
            ("failed", most.failed, "failed_requests", "of the requests failed"),
        )  # fmt: skip
        return [
            Note(code, f"{shares[name]:.0%} {text}")
            for name, limit, code, text in told
            if shares[name] > limit
        ]


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
