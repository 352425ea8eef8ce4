"""Outcomes of one policy on recorded paths: expectations per item over orders of drawing.

Also the reference, which is what is drawn today, and what rules read of the paths' confidences: checked, and
calibrated on other questions than they judge.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from functools import lru_cache

import numpy as np

from keff.errors import PolicyError
from keff.policies import TablePolicy
from keff.policy import (
    Branching,
    Fittable,
    InFlight,
    Policy,
    Sample,
    Stop,
    Vectorised,
    View,
    calibrated,
    confidence_of,
    for_one_model,
    in_flight_of,
    parse_policy,
)
from keff.policy.spec import COUNTED, MAX_CAP, PolicySpec
from keff.policy.weighting import Answered, Answering, Over, part_of
from keff.records import frozen
from keff.stats.time import NO_CONTENTION, Crowding, in_rounds, stop_at
from keff.stats.votes import CONFIDENCE, RATING_SECONDS, Float32Array, FloatArray, Int16Array, IntArray, Votes
from keff.stats.voting.calibrate import cross_fit
from keff.stats.voting.draws import CHANCE, WEIGHT, Draws, at_place

# Without --now, what is drawn today are the recorded paths, but nobody votes on more than so many.
MOST_RECORDED = 64


def reference_of(now: str | None, k: int) -> Policy:
    """Return today's policy: a number of paths, a policy, or (None) the k recorded paths, at most 64.

    A policy that may be written without its cap gets the recorded k. Raises PolicyError for an unknown rule,
    and for one that no record of one model can replay.
    """
    if now is None:
        return parse_policy(f"fixed:{min(k, MOST_RECORDED)}")
    text = f"fixed:{now}" if now.strip().isdigit() else now
    policy = with_cap(text, k)
    if isinstance(policy, Branching):
        raise PolicyError(f"--now {text}: a policy over several models cannot be replayed on one of them")
    if isinstance(policy, Fittable) and not policy.fitted:
        raise PolicyError(
            f"--now {text} is fitted to a pilot: name what is deployed, such as its plan's policy"
        )
    return policy


def exact(reference: Policy) -> Policy:
    """Return the cheapest policy that always gives the reference's answer: ``curtailed`` for ``fixed``."""
    if reference.spec == f"fixed:{reference.cap}" and reference.cap > 1:
        return parse_policy(f"curtailed:cap={reference.cap}")
    return reference


def with_cap(text: str, k: int) -> Policy:
    """Return the policy of a spec; where the spec leaves its cap out, the cap is k."""
    spec = PolicySpec.parse(text)
    capless = spec.name not in COUNTED and "cap" not in spec.options and not isinstance(spec.value, str)
    return parse_policy(spec.with_cap(min(k, MAX_CAP)) if capless else spec)


def with_fitted_confidences(votes: Votes, rules: Sequence[Policy], resample: int = 0) -> Votes:
    """Return votes with only the confidences that the rules read, cross-fitted.

    Chances and weights of calibrated ones are cross-fitted by clusters, whatever a plan holds: on all of the
    other folds, or (from 1 on) on a ``resample`` of their clusters by its number. Raises PolicyError where a
    confidence is not recorded, or cannot be calibrated without gold answers.
    """
    named: dict[str, FloatArray] = {}
    for rule in rules:
        name = confidence_of(rule)
        if name is None:
            continue
        held = {name: values for name, values in votes.rated.items() if np.isfinite(values).any()}
        given = held.get(name)
        if given is None:
            there = f"they have {', '.join(held)}" if held else "these records have none"
            which = "a confidence" if name == CONFIDENCE else f"the confidence {name}"
            raise PolicyError(f"{rule.spec} needs {which} for each path, and {there}")
        if name != CONFIDENCE:
            named[name] = given
        spent = votes.named.get(RATING_SECONDS)
        if name == CONFIDENCE and spent is not None and np.isfinite(spent).any():
            named[RATING_SECONDS] = np.where(np.isfinite(spent), spent, np.nanmean(spent))
        if calibrated(rule) is not None and name + CHANCE not in named:
            if votes.correct is None:
                raise PolicyError(f"{rule.spec} is calibrated on gold answers, and these records have none")
            named[name + CHANCE], named[name + WEIGHT] = _cross_fit(votes, name, resample)
    if not named and not votes.named:
        return votes
    return replace(votes, named=named)


def chances_of(votes: Votes, name: str) -> FloatArray:
    """Return P(right) of each path [n, K] by a confidence, calibrated on other questions."""
    return _cross_fit(votes, name, 0)[0]


@lru_cache(maxsize=32)
def _cross_fit(votes: Votes, name: str, resample: int) -> tuple[FloatArray, FloatArray]:
    # The same folds for every rule and every command, so that they are judged alike.
    return cross_fit(votes, votes.rated[name], np.random.default_rng(resample), resampled=resample > 0)


@frozen
class PolicyOutcome:
    """Expected outcome for each item [n]: paths, rounds, and where known accuracy and tokens.

    ``agrees`` is the chance of the same answer as plurality at the cap on the same draws, ``as_now`` that of
    today's answer on them, and ``flips`` how often it is another one where a tie of today's is half a change
    (``share_changed``). ``rated`` are the paths whose usual confidence is read (None: none is), ``noise`` the
    variance of ``accuracy`` that comes from drawing finitely many orders (None: exact). ``busy`` [n] are the
    seconds that paths ran; ``wait`` [n, R] the seconds to the answer where rounds follow each other, and
    ``at_once`` [n, R] where all paths start together and those not needed are cancelled (None: as ``wait``,
    for paths in flight start as soon as they may).
    """

    paths: FloatArray
    rounds: FloatArray
    agrees: FloatArray
    accuracy: FloatArray | None
    tokens: FloatArray | None
    noise: FloatArray | None = None
    busy: FloatArray | None = None
    dollars: FloatArray | None = None
    wait: FloatArray | None = None
    at_once: FloatArray | None = None
    as_now: FloatArray | None = None
    flips: FloatArray | None = None
    rated: FloatArray | None = None


def join_outcomes(blocks: Sequence[PolicyOutcome]) -> PolicyOutcome:
    """Return outcomes on all items, joined from blocks of items."""
    if len(blocks) == 1:
        return blocks[0]
    columns: dict[str, FloatArray | None] = {}
    for name in (field.name for field in fields(PolicyOutcome)):
        values = [getattr(block, name) for block in blocks]
        columns[name] = None if any(value is None for value in values) else np.concatenate(values)
    return PolicyOutcome(**columns)  # type: ignore[arg-type]


@frozen
class Walks:
    """Stopping point of each order of drawing [n, R]: paths drawn, rounds, and credit with labels.

    ``wait`` are the seconds until then, where known. With paths in flight ``stop`` are the votes counted,
    ``rounds`` and ``launched`` the paths begun, and ``ran`` [n, R, cap] the share of each path that is paid.
    ``rated`` says that each path counts once its verifier has rated it.
    """

    stop: IntArray
    rounds: IntArray
    answer: Int16Array
    credit: FloatArray | None
    wait: FloatArray | None = None
    launched: IntArray | None = None
    ran: FloatArray | None = None
    rated: bool = False

    @property
    def paths(self) -> IntArray:
        """The paths launched in each order [n, R]."""
        return self.stop if self.launched is None else self.launched


def is_vectorised(policy: Policy) -> bool:
    """Return whether a policy, or the rule it wraps, is evaluated on many orders at once."""
    # Waves and weighted votes are followed at once only where their rule is.
    if isinstance(policy, Over):
        return is_vectorised(policy.rule)
    return isinstance(policy, Vectorised)


def run(policy: Policy, draws: Draws, crowding: Crowding = NO_CONTENTION, *, whole: bool = False) -> Walks:
    """Return a policy's walks along every order; ``whole``: cancelled paths are paid in full."""
    for_one_model(policy, "a replayed record")
    if confidence_of(policy) != CONFIDENCE:
        return _walk(policy, draws, crowding, whole=whole)
    longer = draws.with_rating_time
    walks = _walk(policy, longer, crowding, whole=whole)
    if walks.ran is not None and longer.seconds is not None and draws.seconds is not None:
        # Of what a path ran the model's part comes first, and only that part is the model's.
        parts = (longer.seconds / np.maximum(draws.seconds, 1e-9))[..., : walks.ran.shape[2]]
        walks = replace(walks, ran=np.minimum(walks.ran * parts, 1.0))
    return replace(walks, rated=True)


def _walk(policy: Policy, draws: Draws, crowding: Crowding, *, whole: bool) -> Walks:
    if (flight := in_flight_of(policy)) is not None:
        return _in_flight_walks(policy, flight, draws, crowding, whole=whole)
    table, course = None, slice(None)
    if isinstance(policy, TablePolicy) and type(policy).ahead is TablePolicy.ahead:
        # Looked up only where an order comes by: it skips most prefixes.
        ahead, table, course = draws.cells(policy.cap + 1), policy.table, draws.distinct_orders[1]
    elif is_vectorised(policy) and isinstance(policy, Vectorised):
        ahead = policy.ahead(draws)
    else:
        return _one_by_one(policy, draws)
    shape, work = draws.codes.shape[:2], draws.seconds
    flat = None if work is None else work.reshape(-1, work.shape[2])
    ends, rounds, wait = in_rounds(ahead.reshape(-1, ahead.shape[-1]), flat, crowding, table)
    stop, times = ends[course].reshape(shape), None if wait is None else wait.reshape(shape)
    return Walks(stop, rounds[course].reshape(shape), *_answers_at(policy, draws, stop), times)


def _answers_at(policy: Policy, draws: Draws, stop: IntArray) -> Answered:
    """Return answers and credit [n, R] of a policy that stops after ``stop`` paths."""
    if (answering := part_of(policy, Answering)) is not None:
        return answering.answered(draws, stop)
    seen = draws.tallies
    return at_place(seen.leader, stop), None if seen.credit is None else at_place(seen.credit, stop)


def share_changed(walk: Walks, today: Walks, draws: Draws) -> FloatArray:
    """Return how often a rule's answer differs from the reference's [n, R]; half for ties.

    Where the other one ends in a tie it is half an answer, as accuracy splits it (of more than two tied
    answers nearly so), unless both saw the same votes.
    """
    seen = draws.tallies
    tied = at_place(seen.v1, today.stop) == at_place(seen.v2, today.stop)
    return np.where(tied & (walk.stop != today.stop), 0.5, walk.answer != today.answer)


def _in_flight_walks(
    policy: Policy, flight: InFlight, draws: Draws, crowding: Crowding, *, whole: bool
) -> Walks:
    """Return walks with paths in flight, the rest cancelled at the stop."""
    if draws.work is None:
        raise PolicyError(
            f"{policy.spec} cannot be replayed: record the seconds or the tokens of every path "
            "(all_seconds, all_tokens), because paths in flight end in the order of their lengths"
        )
    cap, shape = policy.cap, draws.codes.shape[:2]
    table, arriving = draws.schedule(cap, min(flight.width, crowding.slots))
    arrival = flight.order == "arrival"
    votes = arriving if arrival else draws
    stop = flight.stops(votes).reshape(-1, cap + 1).argmax(axis=1)
    event = stop - 1
    if not arrival:
        event = np.take_along_axis(table.in_launch_order, event[:, None], axis=1)[:, 0]
    ended = stop_at(table, event, crowding)
    at_stop = stop.reshape(votes.codes.shape[:2])
    answer, credit = _answers_at(policy, votes, at_stop)
    if part_of(policy, Answering) is None:
        # Of answers that tie when all have voted the whole vote's wins, whatever came first.
        answer = np.where(
            at_stop.reshape(shape) == cap, draws.tallies.leader[..., cap], answer.reshape(shape)
        )
    began = np.arange(cap) < ended.launched[:, None]
    ran = (began.astype(np.float64) if whole else ended.ran).reshape(*shape, cap)
    launched = ended.launched.reshape(shape)
    return Walks(
        stop.reshape(shape),
        launched,
        answer.reshape(shape),
        None if credit is None else credit.reshape(shape),
        None if draws.seconds is None else ended.time.reshape(shape),
        launched,
        ran,
    )


def expectations(walks: Walks, draws: Draws, cap: int, today: Walks | None = None) -> PolicyOutcome:
    """Return expected outcomes over orders, compared with plurality at ``cap`` and the rule of ``today``."""
    return PolicyOutcome(
        paths=walks.paths.mean(axis=1),
        rounds=walks.rounds.mean(axis=1),
        agrees=(walks.answer == draws.tallies.leader[:, :, cap]).mean(axis=1),
        accuracy=None if walks.credit is None else walks.credit.mean(axis=1, dtype=np.float64),
        tokens=_mean_spending(walks, draws, draws.tokens),
        busy=_mean_spending(walks, draws, draws.seconds),
        wait=walks.wait,
        at_once=_seconds_in_parallel(walks, draws.with_rating_time if walks.rated else draws),
        as_now=None if today is None else (walks.answer == today.answer).mean(axis=1),
        flips=None if today is None else share_changed(walks, today, draws).mean(axis=1, dtype=np.float64),
        rated=walks.stop.mean(axis=1) if walks.rated else None,
    )


def _mean_spending(walks: Walks, draws: Draws, each: Float32Array | None) -> FloatArray | None:
    """Return the mean tokens or seconds paid for each question [n]."""
    if each is None:
        return None
    if walks.ran is not None:
        held = each[..., : walks.ran.shape[2]]
        return np.einsum("irk,irk->i", held, walks.ran, dtype=np.float64) / held.shape[1]
    ran = np.arange(draws.cap) < walks.stop[..., None]
    return (each * ran).sum(axis=2, dtype=np.float64).mean(axis=1)


def _seconds_in_parallel(walks: Walks, draws: Draws) -> FloatArray | None:
    """Return the seconds to the last counted path; votes count in launch order."""
    if draws.seconds is None or walks.ran is not None:
        return None
    slowest = np.maximum.accumulate(draws.seconds, axis=2)
    return at_place(slowest, np.maximum(walks.stop - 1, 0)).astype(np.float64)


def decisions(
    policy: Policy, keys: list[str | None], confidences: list[float]
) -> Iterator[tuple[int, Sample | Stop]]:
    """Yield each decision of a policy run live, with the paths seen; the last is the stop."""
    n = 0
    while True:
        decision = policy.decide(View(keys[:n], confidences[:n]))
        yield n, decision
        if isinstance(decision, Stop):
            return
        if n + decision.m > policy.cap:
            raise PolicyError(f"{policy.spec} asks for path {n + decision.m}, above its cap {policy.cap}")
        n += decision.m


def _one_by_one(policy: Policy, draws: Draws) -> Walks:
    shape, name = draws.codes.shape[:2], confidence_of(policy)
    stop, rounds = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    answer, credit, wait = np.full(shape, -1, np.int16), np.zeros(shape), np.zeros(shape)
    for place in np.ndindex(shape):
        codes = draws.codes[place]
        keys = [None if code < 0 else str(code) for code in codes.tolist()]
        scores: list[float] = [] if name is None else draws.confidences_along(name)[place].tolist()
        for count, (n, decision) in enumerate(decisions(policy, keys, scores)):
            if isinstance(decision, Sample) and draws.seconds is not None:
                wait[place] += draws.seconds[place][n : n + decision.m].max()
            if isinstance(decision, Stop):
                stop[place], rounds[place] = n, count
                answer[place] = -1 if decision.answer is None else int(decision.answer)
        held = codes[: stop[place]] == answer[place]
        if draws.correct is not None and answer[place] >= 0 and held.any():
            credit[place] = draws.correct[place][: stop[place]][held].mean()
    known = None if draws.correct is None else credit
    return Walks(stop, rounds, answer, known, None if draws.seconds is None else wait)
