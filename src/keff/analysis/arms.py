"""Compare two arms on the same items, such as one prompt against prompt templates."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from keff.analysis.combine import judged, slot_table
from keff.analysis.results.combination import Slot
from keff.analysis.results.comparison import ArmResult, Comparison, Corrected, ScoreComparison
from keff.analysis.scores import contest, pair, shared_rows
from keff.errors import UsageError
from keff.reading.ballot import Ballot
from keff.reading.open import Opening, Record, open_record
from keff.reading.repeated import RepeatedScores, as_scored, of_record, scored_logs
from keff.reading.several import logs_at, one_model, open_records
from keff.records import Interval, Note, frozen
from keff.stats.branches import slots as audit
from keff.stats.branches.compare import ArmComparison, ArmPlan, compare_arms
from keff.stats.branches.covariance import BlockCorrelation, block_correlation
from keff.stats.branches.weights import Pruning, WeightedVote
from keff.stats.intervals import interval_c, paired_difference
from keff.stats.models.betabinomial import majority_at_k_items
from keff.stats.resampling import FOLDS
from keff.stats.sources import variance_left_out
from keff.stats.votes import FloatArray, IntArray, Votes
from keff.stats.voting.choose import ceiling, k_eff, k_eff_block
from keff.stats.voting.correlation import agreement, anova_c, pearson_c, pooled_c
from keff.stats.voting.plurality import plurality_of_all

# From this difference of extraction failures between arms on, a fall of correlation is suspect.
FAILURES_APART = 0.05

# A slot of lower accuracy broke the format of answers, rather than found the questions hard.
SLOT_FLOOR = 0.02

# Slots as the command line takes them: 0-3,5.
_SLOTS = re.compile(r"\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*")


@frozen
class Comparing(ArmPlan):
    """Design of a comparison of two arms, with the seed of its resamples."""

    seed: int = 0


def _path_and_part(text: str) -> tuple[Path, str]:
    """Return the file of ``PATH#PART`` and the part, which is empty where none is named."""
    path, _, choice = text.rpartition("#")
    return (Path(path), choice) if path and not Path(text).exists() else (Path(text), "")


def open_arm(text: str, opening: Opening | None = None) -> Record:
    """Return the record of an arm, ``PATH``, ``PATH#SLOTS`` (``run#0``, ``run#1-8``) or ``PATH#PART``.

    Slots choose template slots of one run; a part one of the records in a log, such as ``gsm8k/sc``.
    """
    opening = opening or Opening()
    path, choice = _path_and_part(text)
    if _SLOTS.fullmatch(choice):
        record = open_record(path, opening)
        chosen, gaps = _slot_set(choice), record.with_gaps
        kept = None if gaps is None else _only(record.path, gaps, chosen)
        return replace(record, path=text, ballot=_only(record.path, record.ballot, chosen), with_gaps=kept)
    record = open_record(Path(text), opening)
    return replace(record, path=text) if choice else record


def open_scored(
    text: str, opening: Opening | None = None, *, one: bool = False, apart: bool = False
) -> list[RepeatedScores]:
    """Read repeated scores given as ``PATH``, ``PATH#SLOTS`` or ``PATH#PART``, one for each model.

    Sources of one path each are read together, but not where models are wanted ``apart``. Raises UsageError
    that names the models where ``one`` is wanted and there are several.
    """
    opening = opening or Opening()
    path, choice = _path_and_part(text)
    if _SLOTS.fullmatch(choice):
        return [of_record(open_arm(text, opening), opening.sources)]
    if choice:
        return [replace(each, path=text) for each in scored_logs(path, replace(opening, part=choice))]
    found = scored_logs(path, opening, apart=apart)
    if one and len(found) > 1:
        one_model(open_record(path, opening))
    return found


def repeats_of(text: str, opening: Opening | None = None) -> list[RepeatedScores]:
    """Read the repeats of one run: a log, or the logs in a folder; one model, else UsageError."""
    path, choice = _path_and_part(text)
    files = [text] if choice else [str(file) for file in logs_at(path, opening or Opening())]
    return [each for file in files for each in open_scored(file, opening, one=True)]


def open_branches(text: str, opening: Opening | None = None) -> list[Record]:
    """Read all records of ``PATH``, or the one of ``PATH#SLOTS`` or ``PATH#PART``: one for each model."""
    path, choice = _path_and_part(text)
    return [open_arm(text, opening)] if choice else open_records(path, opening)


def compare_all(
    scored: Sequence[RepeatedScores], others: int, how: Comparing | None = None
) -> Comparison | ScoreComparison:
    """Compare scores: each with the first where ``others`` were given beside it, else all pairs.

    Two with two or more paths of every question also as template arms.
    """
    if len(scored) == 2:
        first, second = (each.record for each in scored)
        if first is not None and second is not None and min(each.repeats.k for each in scored) > 1:
            return compare(first, second, how, scored)
    level = (how or Comparing()).level
    return contest(scored, level, with_first=others > 0)


def compare(
    first: Record,
    second: Record,
    how: Comparing | None = None,
    scored: Sequence[RepeatedScores] | None = None,
) -> Comparison:
    """Compare two arms item by item; ``scored`` are their scores, with the sources of paths.

    Items are matched by id, and only shared ones count; clusters are the independent units. ``delta_rho`` is
    the paper's relative change of the mean pairwise Pearson correlation with a percentile interval from a
    paired cluster bootstrap, ``corrected`` the same from the bias-corrected c. Raises UsageError for arms
    without gold answers, with fewer than two shared items, or with one path.
    """
    how = how or Comparing()
    votes, notes = match_votes(first, second)
    one, other = scored or (as_scored(first), as_scored(second))
    better, about = pair(one, other, how.level)
    notes += about
    if votes[0].k < 2 or votes[0].n < 2:
        raise UsageError("a correlation needs at least two shared items, and two paths of each in both arms")
    paper, ours = compare_arms(*votes, np.random.default_rng(how.seed), how)
    # The accuracy of one path is that of all paths; the votes are of equally many.
    described = (
        replace(describe(first.path, votes[0], how), p=better.scores[0]),
        replace(describe(second.path, votes[1], how), p=better.scores[1]),
    )
    notes += [*paper.relative.warnings, *_other_causes(*described, paper)]
    answers = all(arm.answers is not None for arm in votes)
    sources = [_columns(each, arm) for each, arm in zip((one, other), votes, strict=True)]
    return Comparison(
        arms=described,
        shared_items=votes[0].n,
        shared_clusters=votes[0].n_clusters,
        design=how.design,
        replicates=how.replicates,
        delta_rho=paper.relative.interval,
        delta_rho_absolute=paper.delta.interval,
        delta_k_eff=paper.delta_k_eff.interval,
        corrected=Corrected(
            c=ours.c,
            delta_c=ours.relative.interval,
            delta_c_absolute=ours.delta.interval,
            delta_k_eff=ours.delta_k_eff.interval,
        ),
        delta_p=better.difference,
        delta_majority=_change(votes, sources, lambda arm: majority_at_k_items(arm)[:, -1], how.level),
        delta_plurality=_change(votes, sources, plurality_of_all, how.level) if answers else None,
        better=better,
        warnings=tuple(dict.fromkeys(notes)),
    )


def match_votes(first: Record, second: Record) -> tuple[tuple[Votes, Votes], list[Note]]:
    """Return the votes of both arms on their shared items in one order, with equally many paths.

    Clusters are those of the first.
    """
    names = first.ballot.names, second.ballot.names
    rows, notes = shared_rows(names, (first.path, second.path))
    notes = [*first.ballot.notes, *second.ballot.notes, *notes]
    k = min(first.ballot.votes.k, second.ballot.votes.k)
    if first.ballot.votes.k != second.ballot.votes.k:
        notes.append(
            Note("unequal_paths", f"the arms have unequally many paths: the first {k} of each are used")
        )
    votes = first.ballot.votes
    clusters = (np.arange(votes.n) if votes.clusters is None else votes.clusters)[rows[0]]
    return (_votes_of_rows(first, rows[0], clusters, k), _votes_of_rows(second, rows[1], clusters, k)), notes


def describe(path: str, votes: Votes, how: Comparing) -> ArmResult:
    """Return the statistics of one arm: accuracies, correlation, votes, slots, weighted votes and pruning."""
    rho, dropped = pearson_c(votes)
    answers = votes.answers is not None
    block = k_eff_block(votes, ddof=1)
    weights, pruning = _weights(votes, how.seed)
    return ArmResult(
        path=path,
        n=votes.n,
        k=votes.k,
        clusters=votes.n_clusters,
        p=votes.p,
        rho=rho,
        rho_dropped=dropped,
        c=interval_c(votes, level=how.level).interval,
        c_pooled=pooled_c(votes),
        c_anova=anova_c(votes),
        k_eff=float(k_eff(votes.k, rho)),
        ceiling=float(ceiling(rho)),
        k_eff_block=block,
        block_over_vote=block / float(k_eff(votes.k, rho)),
        majority=float(majority_at_k_items(votes)[:, -1].mean()),
        plurality=float(plurality_of_all(votes).mean()) if answers else None,
        agreement=agreement(votes) if answers else None,
        answer_diversity=float(audit.answer_diversity(votes).mean()) if answers else None,
        slots=slot_table(votes),
        slot_cv=audit.slot_cv(votes),
        phi=audit.phi_audit(votes),
        weights=weights,
        pruning=pruning,
        blocks=_blocks(votes, how.level),
    )


def _blocks(votes: Votes, level: float) -> BlockCorrelation | None:
    """Return c within and between templates; None for one prompt or too few questions."""
    if votes.slots is None or len(np.unique(votes.slots)) < 2 or votes.n_clusters < FOLDS:
        return None
    return block_correlation(votes, level)


def _weights(
    votes: Votes, seed: int
) -> tuple[tuple[WeightedVote, ...], tuple[Pruning, ...]] | tuple[None, None]:
    """Judge weights and pruning where slots are templates; None under one prompt."""
    if votes.slots is None or votes.n_clusters < FOLDS:
        return None, None
    return judged(votes, seed)


def _slot_set(text: str) -> set[int]:
    chosen: set[int] = set()
    for part in text.split(","):
        low, _, high = part.partition("-")
        chosen |= set(range(int(low), int(high or low) + 1))
    return chosen


def _only(path: str, ballot: Ballot, chosen: set[int]) -> Ballot:
    own = np.zeros(ballot.votes.k, np.int64) if ballot.votes.slots is None else ballot.votes.slots
    columns = np.flatnonzero(np.isin(own, sorted(chosen)))
    if columns.size == 0:
        raise UsageError(f"{path} has no path of slots {sorted(chosen)}: it has {np.unique(own).tolist()}")
    votes = ballot.votes.paths(columns)
    if np.unique(own[columns]).size == 1:
        votes = replace(votes, slots=None)
    return replace(ballot.of_columns(columns), votes=votes)


def _votes_of_rows(record: Record, rows: IntArray, clusters: IntArray, k: int) -> Votes:
    votes = record.ballot.votes
    if votes.correct is None:
        raise UsageError(f"{record.path} has no gold answers: correctness cannot be compared")
    kept = votes if np.array_equal(rows, np.arange(votes.n)) else votes.take(rows)
    return replace(kept if k == votes.k else kept.paths(np.arange(k)), clusters=clusters)


def _columns(scored: RepeatedScores, votes: Votes) -> tuple[str, ...]:
    """Return the source of each column [K], where these are some of many."""
    if scored.sources is None or not scored.sources.random:
        return ()
    names, slots = scored.sources.names, votes.slots
    places = range(votes.k) if slots is None else np.unique(slots, return_inverse=True)[1].tolist()
    return tuple(names[place] for place in places)


def _change(
    arms: tuple[Votes, Votes],
    sources: Sequence[tuple[str, ...]],
    accuracy: Callable[[Votes], FloatArray],
    level: float,
) -> Interval:
    """Return the paired change of an accuracy [n] of votes; over random sources, too, by the jackknife."""

    def change(left: str = "") -> FloatArray:
        one, other = (
            arm.paths(np.array([name != left for name in own])) if left in own else arm
            for arm, own in zip(arms, sources, strict=True)
        )
        return accuracy(other) - accuracy(one)

    names = sorted({*sources[0], *sources[1]})
    found: FloatArray = np.array([change(name).mean() for name in names])
    luck = float(variance_left_out(found)) if found.size else 0.0
    return paired_difference(change(), arms[0].clusters, level, noise=luck)


def _other_causes(first: ArmResult, second: ArmResult, change: ArmComparison) -> Iterator[Note]:
    """Yield notes on other reasons for a lower correlation than decorrelation, such as unequal slots."""
    yield from _slot_notes(second.slots or ())
    if change.relative.hi is None or change.relative.hi >= 0:
        return  # no fall that would need explaining
    fall = change.relative.value
    ratio = second.phi.ratio / first.phi.ratio - 1 if first.phi.ratio else math.nan
    if ratio > fall / 2:
        yield Note(
            "unequal_slots",
            f"rho falls by {-fall:.0%}, but only by {max(-ratio, 0):.0%} as a share of the most that the "
            "slots' accuracies allow. So most of the fall comes from unequal slots, not from independence",
        )


def _slot_notes(slots: Sequence[Slot]) -> Iterator[Note]:
    """Yield notes on single slots: unparsed answers, and accuracies near zero."""
    failing = [slot for slot in slots if (slot.extraction_failures or 0) > FAILURES_APART]
    if failing:
        text = ", ".join(f"{slot.slot} ({slot.extraction_failures:.0%})" for slot in failing)
        yield Note("extraction_failures", f"slots without an answer in many paths: {text}")
    low = [str(slot.slot) for slot in slots if slot.accuracy < SLOT_FLOOR]
    if low:
        yield Note("slot_floor", f"slots right in under 2% of paths: {', '.join(low)}")
