"""Functions of ``import keff`` that analyse a source: a path, Record, Votes, array, lists or frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike

from keff.analysis import arms, estimates
from keff.analysis import audit as audits
from keff.analysis import gate as gates
from keff.analysis import replay as replaying
from keff.analysis import scores as repeated_scores
from keff.analysis.combine import combine_record, fitting, read_embeddings
from keff.analysis.estimates import Settings
from keff.analysis.mix.choose import MixAim
from keff.analysis.mix.findings import MixFindings
from keff.analysis.mix.study import MAX_LOSS, MixSettings, combine_branches
from keff.analysis.results.combination import Combination
from keff.analysis.results.comparison import Comparison, ScoreComparison
from keff.analysis.results.estimates import Analysis
from keff.analysis.results.gate import Gate
from keff.analysis.results.replay import Replay
from keff.analysis.results.scores import Audit, Noise
from keff.analysis.wanted import WANTED, Wanted, replaying_of, settings_of, tariff_of
from keff.errors import UsageError
from keff.policy import Policy
from keff.reading.arrays import numeric_rows
from keff.reading.join import align
from keff.reading.open import Record
from keff.reading.repeated import RepeatedScores, of_rows
from keff.reading.several import by_column, one_model
from keff.reading.source import SourceOptions, opening_of, record_of, scored_of, unknown
from keff.records import Interval
from keff.sampling.cost import Price
from keff.stats.intervals import interval_c
from keff.stats.models.betabinomial import majority_at_k
from keff.stats.votes import FloatArray, IntArray, Votes
from keff.stats.voting import choose
from keff.stats.voting.plurality import plurality_at_k


class AnalysisRequest(SourceOptions, Wanted):
    """Keywords of ``keff.analyze``: how a source is read, and the aim of its analysis."""


def analyze(source: object, settings: Settings | None = None, **asked: Unpack[AnalysisRequest]) -> Analysis:
    """Measure how many paths are worth paying for, and decide what to draw.

    ``source`` is a path (or ``PATH#SLOTS``, ``PATH#PART``), a Record, Votes, a 0/1 array [n, K] of
    correctness with NaN for a missing path, nested lists of answers with ``gold_answer=[...]``, or a
    pandas or polars frame with one row per path. Keywords say what you want, as on the command line
    (``now``, ``cap``, ``retain``, ``sure``, ``budget``, ``prices``, ...: ``keff.Wanted``; all at once as
    ``settings``). Others name the columns of a frame (``id="question_id", answer="prediction"``), or hold
    the data beside an array. Raises KeffError with one sentence that says what was expected, also for a
    record of several models or prompts.

    Example: ``keff.analyze("answers.csv", now=8).decision.policy``.
    """
    unknown(asked, *WANTED)
    how = {name: value for name, value in asked.items() if name not in WANTED}
    wanted = settings_of({name: value for name, value in asked.items() if name in WANTED}, settings)
    return estimates.analyze(one_model(read(source, how)), wanted)


def replay(
    source: object,
    policies: str | Policy | Sequence[str | Policy],
    settings: replaying.Replaying | None = None,
    *,
    now: int | str | None = None,
    cap: int | None = None,
    retain: float | None = None,
    slower: float | Literal["any"] | None = None,
    prices: str | Path | Mapping[str, Price | Mapping[str, float]] | None = None,
    pace: str | None = None,
    random_slots: bool | None = None,
    seed: int | None = None,
    **how: Unpack[SourceOptions],
) -> Replay:
    """Compare stopping policies on recorded paths, at equal cost; ``source`` as in ``analyze``.

    Policies are specs such as ``"lead_k:3"``, or objects of your own. ``now``, ``cap``, ``retain``,
    ``slower``, ``prices`` and ``pace`` are as in ``analyze``, whose rule is a row, too; ``random_slots`` says
    that template slots are drawn at random in deployment. ``settings`` holds them all at once. ``seed`` is
    that of the random orders of drawing. Raises KeffError, such as PolicyError for a policy that may draw
    more than was recorded.

    Example: ``keff.replay("answers.csv", ["fixed:8", "lead_k:3,cap=8"])["lead_k:3,cap=8"].accuracy``.
    """
    rules = list(policies) if isinstance(policies, list | tuple) else [policies]
    record = one_model(read(source, how))
    words = {"now": now, "cap": cap, "retain": retain, "slower": slower, "prices": prices, "pace": pace}
    words |= {"random_slots": random_slots, "seed": seed}
    wanted = replaying_of(words, record.info.model, settings)
    votes, rng = record.ballot.votes, np.random.default_rng(wanted.seed)
    found = replaying.replay(votes, rules, rng, wanted)  # pyright: ignore[reportArgumentType]
    return replace(found, warnings=(*record.ballot.notes, *found.warnings))


def noise(source: object, **how: Unpack[SourceOptions]) -> Noise:
    """Measure how far to trust a score: its noise from run to run, power, pass@k and pass^k.

    ``source`` as in ``analyze``, or an array or nested lists of graded scores (0 to 1, 1 to 10, 0 to 100),
    with as many repeats of each question as there are. Raises KeffError with one sentence that says what was
    expected.

    Example: ``keff.noise([[1, 0, 1], [0.5, 0.25]])``.
    """
    (only,) = scores_of(source, how, 1)
    return repeated_scores.noise(only)


def scores_of(
    source: object, how: Any, most: int | None = None, *, apart: bool = False
) -> list[RepeatedScores]:
    """Return the repeated scores of a source, one for each model; UsageError for more than ``most``."""
    if isinstance(source, RepeatedScores):
        return [source]
    if isinstance(source, str | Path):
        found = arms.open_scored(str(source), opening_of(how), apart=apart)
    elif (rows := numeric_rows(source)) is not None and not set(how) - {"cluster", "sources"}:
        found = [of_rows(rows, how.get("cluster"), how.get("sources"))]
    else:
        found = scored_of(source, how, apart=apart)
    if most is not None and len(found) > most:
        names = ", ".join(each.path for each in found[:3])
        raise UsageError(f"it holds {len(found)} records ({names}, ...): name one of them, as PATH#PART")
    return found


def _repeats(source: object, number: int, how: Any) -> list[RepeatedScores]:
    """Return the repeats of one run in a source, of one or (in a folder) several logs."""
    if isinstance(source, str | Path):
        return arms.repeats_of(str(source), opening_of(how))
    return [_with_letter(each, number) for each in scores_of(source, how, 1)]


def _with_letter(each: RepeatedScores, number: int) -> RepeatedScores:
    """Return scores from memory, named by the letter of their source."""
    if each.path not in IN_MEMORY:
        return each
    letter = chr(ord("A") + number)
    return replace(each, path=letter, record=each.record and replace(each.record, path=letter))


# What a source is called that has no path; several of these would have one name in a comparison.
IN_MEMORY = ("scores", "votes", "array", "lists", "frame")


@overload
def compare(
    first: object, *others: object, settings: arms.Comparing | None = None, **how: Unpack[SourceOptions]
) -> Comparison | ScoreComparison: ...


@overload
def compare(
    first: object,
    *others: object,
    gate: float,
    max_repeats: int = 8,
    new_questions: bool = False,
    **how: Unpack[SourceOptions],
) -> Gate: ...


def compare(
    first: object,
    *others: object,
    settings: arms.Comparing | None = None,
    gate: float | None = None,
    max_repeats: int = 8,
    new_questions: bool = False,
    **how: Unpack[SourceOptions],
) -> Comparison | ScoreComparison | Gate:
    """Test whether another model, prompt or version is better, on the questions that both answered.

    Sources as in ``noise``, matched by id (arrays and lists by their place). The result depends on them.
    Two records of right and wrong paths, with two or more of each question, give a ``Comparison``:
    whether the second is better, and how correlations, votes and template slots differ. Several records,
    one log of several models (each against each), graded scores and single repeats give a
    ``ScoreComparison``. With ``gate``, the points that may be lost, you get a ``Gate``: whether the run,
    whose repeats are the other sources, became worse than the first, on these questions or on
    ``new_questions`` like them. Raises UsageError for sources without scores or shared questions.

    Example: ``keff.compare("small.jsonl", "large.jsonl", gate=5).verdict``.
    """
    try:
        if gate is not None:
            sides = [_repeats(one, number, how) for number, one in enumerate((first, *others))]
            return gates.gate(sides[0], [*chain(*sides[1:])], gates.Gating(gate, max_repeats, new_questions))
        found = [
            _with_letter(each, number)
            for number, one in enumerate((first, *others))
            for each in scores_of(one, how, apart=not others)
        ]
        return arms.compare_all(found, len(others), settings)
    except ValueError as error:
        raise UsageError(str(error)) from None


def audit(*sources: object, **how: Unpack[SourceOptions]) -> Audit:
    """Find gold answers that may be wrong; sources as in ``analyze``, one per model.

    Raises UsageError for records without answers or gold answers.

    Example: ``keff.audit("small.jsonl", "large.jsonl").suspects[0].id``.
    """
    records: list[Record] = []
    for source in sources:
        text = isinstance(source, str | Path)
        records += arms.open_branches(str(source), opening_of(how)) if text else [record_of(source, how)]
    return audits.audit(records)


def mix(
    *sources: object,
    names: Sequence[str] | None = None,
    cap: int = 32,
    retain: float | None = None,
    budget_dollars: float | None = None,
    value_per_correct: float | None = None,
    cost_per_path: float | None = None,
    max_loss: float = MAX_LOSS,
    false_accept: float | None = None,
    prices: str | Path | Mapping[str, Price | Mapping[str, float]] | None = None,
    seed: int = 0,
    **how: Unpack[SourceOptions],
) -> MixFindings:
    """Find which models or prompts to combine, and in what order; sources as in ``analyze``, one per branch.

    ``cap`` is the most paths of one branch. State one aim: ``retain`` (the share of the best single
    branch's accuracy), ``budget_dollars`` per question, or ``value_per_correct`` (with ``cost_per_path``
    if nothing else prices a path). Without an aim the plan gives up at most ``max_loss`` points of accuracy,
    as far as the questions can tell. Raises UsageError for fewer than two branches or shared questions.

    Example: ``keff.mix("small.jsonl", "large.jsonl").advice.plan.policy``.
    """
    if "tolerance" in how:
        raise UsageError("tolerance is max_loss now, in points: tolerance=0.01 is max_loss=1")
    aim = MixAim(retain, budget_dollars, value_per_correct, cost_per_path)
    table = None if prices is None else tariff_of(prices).prices
    if budget_dollars is not None and table is None:
        raise UsageError("a budget in dollars needs prices")
    group = align([read(source, how) for source in sources], names)
    return combine_branches(group, MixSettings(cap, aim, table, max_loss, seed, false_accept))


def combine(
    source: object, *, embeddings: str | Path | ArrayLike | None = None, **how: Unpack[SourceOptions]
) -> Combination:
    """Judge weighted votes and pruned slots, cross-fitted; ``source`` as in ``analyze``.

    ``embeddings`` of the paths add the paper's GLS-R: an array [n, K, D] in the order of the questions, or
    ``FILE.npy`` or ``FILE.parquet#COLUMN``. Raises UsageError without gold answers, for records that are too
    small, and for embeddings of another shape.

    Example: ``keff.combine("small.jsonl").weights[0].gain``.
    """
    record = by_column(read(source, how, gaps=True))
    if embeddings is None:
        return combine_record(record)
    named = isinstance(embeddings, str | Path)
    return combine_record(
        record, embeddings=read_embeddings(embeddings, record) if named else fitting(embeddings, record)
    )


def read(source: object, how: Any, *, texts: bool = False, gaps: bool = False) -> Record:
    """Return the record of a source; a string may be ``PATH#PART``, as on the command line."""
    if isinstance(source, str | Path):
        return arms.open_arm(str(source), replace(opening_of(how, texts=texts), gaps=gaps))
    return record_of(source, how, gaps=gaps)


def c(source: object, *, level: float = 0.95, **how: Unpack[SourceOptions]) -> Interval:
    """Return the correlation of two paths' correctness, without bias, with an interval of this level.

    ``source`` is a 0/1 array [n, K], or anything that ``keff.analyze`` takes. Raises UsageError without gold
    answers, with one path or one question.

    Example: ``keff.c([[1, 1, 0], [0, 0, 0], [1, 1, 1]]).value``.
    """
    votes = _votes_with_gold(source, how)
    if votes.k < 2 or votes.n < 2:
        raise UsageError(f"c needs at least 2 questions with 2 paths each, not {votes.n} x {votes.k}")
    return interval_c(votes, level=level).interval


@overload
def k_eff(k: int, c: Interval) -> Interval: ...
@overload
def k_eff(k: int, c: float) -> float: ...
@overload
def k_eff(k: IntArray, c: float) -> FloatArray: ...
@overload
def k_eff(k: int | IntArray, c: FloatArray) -> FloatArray: ...
def k_eff(k: int | IntArray, c: float | FloatArray | Interval) -> FloatArray | Interval | float:
    """Return K_eff = K/(1+(K-1)c), how many independent paths K correlated ones are worth.

    Arrays broadcast; an Interval of c gives an Interval. If c is below -1/(K-1), which K paths cannot
    have, the result is infinite.

    Example: ``keff.k_eff(3, 0.5) == 1.5``.
    """
    if isinstance(c, Interval):
        return choose.k_eff_interval(k, c)
    worth = choose.k_eff(k, c)
    return float(worth) if np.ndim(worth) == 0 else worth


def k_star(c: float | Interval, epsilon: float = 0.025, k_max: int = 32) -> int:
    """Return the paper's K*: the fewest paths from which the next adds less than ``epsilon`` of the ceiling.

    Raises UsageError for values outside their ranges.

    Example: ``keff.k_star(0.5) == 8``.
    """
    try:
        return int(choose.k_star(c.value if isinstance(c, Interval) else c, epsilon, k_max))
    except ValueError as error:
        raise UsageError(str(error)) from None


def majority(source: object, **how: Unpack[SourceOptions]) -> FloatArray:
    """Return the accuracy of a strict majority of right paths at 1..K paths [K], averaged over all subsets.

    ``source`` is a 0/1 array [n, K], or anything that ``keff.analyze`` takes. Ties count one half.

    Example: ``keff.majority([[1, 1, 0]]).tolist() == [2 / 3, 2 / 3, 1.0]``.
    """
    return majority_at_k(_votes_with_gold(source, how))


def plurality(source: object, **how: Unpack[SourceOptions]) -> FloatArray:
    """Return the accuracy of the most frequent answer at 1..K paths [K], averaged over all subsets.

    ``source`` is nested lists of answers with ``gold_answer=[...]``, or anything that ``keff.analyze``
    takes. A 0/1 array does not say which wrong answers agree, so keff refuses it.

    Example: ``keff.plurality([["7", "7", "8"]], gold_answer=["7"]).tolist() == [2 / 3, 2 / 3, 1.0]``.
    """
    votes = _votes_with_gold(source, how)
    if votes.answers is None:
        raise UsageError(
            "correctness alone does not say which wrong answers agree: give the answers "
            "with gold_answer=[...], or use keff.majority"
        )
    return plurality_at_k(votes)


def _votes_with_gold(source: object, how: SourceOptions) -> Votes:
    votes = read(source, how).ballot.votes
    if votes.correct is None:
        raise UsageError(
            "without gold answers correctness is unknown: give gold_answer=[...] or correct=[[...]]"
        )
    return votes
