"""A recommendation within a number of rounds, or within seconds: the same rule, drawn in planned rounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from keff.analysis.replay.outcomes import run
from keff.analysis.results.decision import Kept
from keff.analysis.results.recommendation import Recommendation
from keff.analysis.times import seconds_of
from keff.errors import UsageError
from keff.policy import Fittable, parse_policy
from keff.policy_rounds import fit_agreement
from keff.policy_spec import PolicySpec
from keff.records import Interval
from keff.stats.courses import GENERIC_WEIGHTS
from keff.stats.draws import Draws, permuted
from keff.stats.mixture import fit_weights, partition_log_law, simulate, vote_counts
from keff.stats.votes import FloatArray, Votes

TRIED = (8, 6, 5, 4, 3, 2, 1)
"""Numbers of rounds that are tried for an answer in time, most first: more rounds take fewer paths."""

COURSES = 12_000
PSEUDO_ITEMS = 10
"""How many pilot questions the generic weights are worth."""


@dataclass(frozen=True, slots=True)
class Haste:
    """How long an answer may take: at most ``max_rounds`` rounds, or ``p95`` seconds for 95% of questions.

    Raises UsageError outside the ranges.
    """

    max_rounds: int | None = None
    p95: float | None = None

    def __post_init__(self) -> None:
        if self.max_rounds is not None and not 1 <= self.max_rounds <= 256:
            raise UsageError(f"--max-rounds must be 1 to 256, not {self.max_rounds}")
        if self.p95 is not None and not 0 < self.p95 < np.inf:
            raise UsageError(f"--p95 must be seconds above 0, not {self.p95:g}")

    @property
    def asked(self) -> bool:
        """Whether anything is asked."""
        return self.max_rounds is not None or self.p95 is not None


def in_time(advice: Recommendation, votes: Votes, haste: Haste, seed: int) -> Recommendation:
    """Return the recommendation with its rule in so many rounds, and the figures of that.

    For ``p95`` the most rounds that are fast enough on the recorded seconds; at last a single path. Raises
    UsageError where not even that is, or no seconds are known.
    """
    if not haste.asked or advice.expected_paths is None or votes.answers is None:
        return advice
    chosen = next(_fast_enough(advice.policy, votes, haste), None)
    if chosen is None:
        raise _too_slow(votes, haste)
    return advice if chosen == advice.policy else _instead(advice, chosen, votes, seed)


def all_in_time(specs: list[str], votes: Votes, haste: Haste) -> list[str]:
    """Return policies in so many rounds; those that are too slow in any number of rounds are left out.

    So are those that a pilot has still to fit, for each pilot would take a plan of its own. Raises UsageError
    when none is left.
    """
    if not haste.asked or votes.answers is None:
        return specs
    fast = [next(_fast_enough(spec, votes, haste), None) for spec in specs if _is_fitted(spec)]
    kept = list(dict.fromkeys(spec for spec in fast if spec is not None))
    if not kept:
        raise _too_slow(votes, haste)
    return kept


def _is_fitted(spec: str) -> bool:
    policy = parse_policy(spec)
    return not isinstance(policy, Fittable) or policy.fitted


def _too_slow(votes: Votes, haste: Haste) -> UsageError:
    alone = seconds_of(votes, "fixed:1")
    takes = "" if alone is None or alone.p95 is None else f" (one path takes {alone.p95.value:.3g} s)"
    return UsageError(f"no policy answers 95% of questions within {haste.p95:g} s{takes}: raise --p95")


def _fast_enough(spec: str, votes: Votes, haste: Haste) -> Iterator[str]:
    if haste.p95 is not None and votes.seconds is None:
        raise UsageError(
            "--p95 needs recorded seconds (all_seconds), or --pace FIRST+RATE to make them of tokens"
        )
    # Nothing is faster than one path: no rounds need to be planned to see that none is fast enough.
    if haste.p95 is None or _in_time("fixed:1", votes, haste.p95):
        options = _options(spec, votes, haste.max_rounds)
        yield from (option for option in options if haste.p95 is None or _in_time(option, votes, haste.p95))


def _in_time(spec: str, votes: Votes, p95: float) -> bool:
    seconds = seconds_of(votes, spec)
    return seconds is not None and seconds.p95 is not None and seconds.p95.value <= p95


def _options(spec: str, votes: Votes, most: int | None) -> Iterator[str]:
    """Yield the rule in fewer and fewer rounds."""
    rule = PolicySpec.parse(spec)
    if rule.name == "fixed" or most is None:
        yield spec
    if rule.name != "fixed":
        agreement = fit_agreement(votes)
        for rounds in TRIED if most is None else (most, *(few for few in TRIED if few < most)):
            yield str(replace(rule, options={**rule.options, "rounds": rounds, "agreement": agreement}))
    if spec != "fixed:1":
        yield "fixed:1"


@dataclass(frozen=True)
class _Played:
    """Means over courses: paths, what stopping loses against the cap, how often the answer is another."""

    paths: float
    lost: float
    differs: float

    @classmethod
    def of(cls, spec: str, draws: Draws, worth: FloatArray) -> _Played:
        walks = run(parse_policy(spec), draws)
        at_stop = np.take_along_axis(worth, walks.stop[..., None], axis=2)[..., 0]
        other = walks.answer != draws.tallies.leader[..., -1]
        return cls(float(walks.stop.mean()), float((worth[..., -1] - at_stop).mean()), float(other.mean()))


def _courses(votes: Votes, cap: int, seed: int) -> tuple[Draws, FloatArray]:
    """Return orders of the recorded paths where they reach the cap, else simulated questions like them.

    And what the running leader is worth there: its accuracy on records with labels, else its share.
    """
    rng, repeats = np.random.default_rng(seed), max(COURSES // votes.n, 4)
    if votes.k >= cap and votes.correct is not None:
        draws = permuted(votes, cap, repeats, rng)
        assert draws.tallies.credit is not None
        return draws, draws.tallies.credit.astype(np.float64)
    weights = fit_weights(partition_log_law(vote_counts(votes)[0]), PSEUDO_ITEMS * GENERIC_WEIGHTS)
    new = simulate(votes, weights, (repeats, cap), rng)
    return new.draws, new.share_of_leader()


def _instead(advice: Recommendation, spec: str, votes: Votes, seed: int) -> Recommendation:
    """Return what another policy is expected to do: the figures of the first and what changes on courses."""
    draws, worth = _courses(votes, parse_policy(advice.policy).cap, seed)
    before, after = (_Played.of(each, draws, worth) for each in (advice.policy, spec))
    times, more = after.paths / before.paths, after.lost - before.lost
    assert advice.expected_paths is not None
    rounds = PolicySpec.parse(spec).options.get("rounds", 1)
    within = "in one round" if rounds == 1 else f"in at most {rounds} rounds"
    return replace(
        advice,
        policy=spec,
        k=parse_policy(spec).cap,
        expected_paths=advice.expected_paths * times,
        expected_paths_interval=_scaled(advice.expected_paths_interval, times),
        expected_tokens=None if advice.expected_tokens is None else advice.expected_tokens * times,
        expected_plurality=_less(advice.expected_plurality, more),
        kept=_kept_less(advice, more),
        same_answer=None
        if advice.same_answer is None
        else advice.same_answer - after.differs + before.differs,
        because=f"{advice.because}; {within}: {times - 1:+.0%} paths",
        replayed=None,
        optimism=None,
    )


def _scaled(value: Interval | None, times: float) -> Interval | None:
    if value is None:
        return None
    lo, hi = (None if end is None else end * times for end in (value.lo, value.hi))
    return replace(value, value=value.value * times, lo=lo, hi=hi)


def _less(value: Interval | None, lost: float) -> Interval | None:
    if value is None:
        return None
    lo, hi = (None if end is None else float(np.clip(end - lost, 0, 1)) for end in (value.lo, value.hi))
    return replace(value, value=float(np.clip(value.value - lost, 0, 1)), lo=lo, hi=hi)


def _kept_less(advice: Recommendation, lost: float) -> Kept | None:
    """Return the share kept; how likely it is to be enough is not known of a policy that loses more."""
    kept, expected = advice.kept, advice.expected_plurality
    if kept is None or expected is None or kept.value <= 0 or expected.value <= 0:
        return None
    share = lost * kept.value / expected.value
    lo, hi = (None if end is None else max(end - share, 0.0) for end in (kept.lo, kept.hi))
    confidence = kept.confidence if share <= 0 else None
    return replace(kept, value=kept.value - share, lo=lo, hi=hi, confidence=confidence)
