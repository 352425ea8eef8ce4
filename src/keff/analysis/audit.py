"""Audit of labels: gold answers that may be wrong, and the ceiling of any vote."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from keff import answers
from keff.analysis.matching import equal_under
from keff.analysis.results.scores import Audit, Suspect
from keff.errors import UsageError
from keff.reading.copies import question_notes
from keff.reading.open import Record
from keff.records import Interval, Note, frozen
from keff.stats.intervals import mean_share
from keff.stats.resampling import numbers_of
from keff.stats.scores import posterior_wrong, unsolved_yet
from keff.stats.votes import FloatArray, IntArray, Votes

# A branch right this often is strong: most of its paths alone make a gold answer worth a look.
STRONG = 0.5


@frozen
class Rival:
    """One branch on one question: the share of right paths, and of the most frequent other answer."""

    right: float
    key: str | None
    share: float
    row: int

    @property
    def leads(self) -> bool:
        """Whether the other answer has more votes than the gold one."""
        return self.key is not None and self.share > self.right


def audit(records: Sequence[Record]) -> Audit:
    """Return the questions whose gold answer should be checked, over the branches of one or more records.

    That is where the most frequent answer of two branches or more is the same other one, or
    where most paths of a branch that is right in at least half of its paths agree on one. Branches weigh by
    their accuracy. Raises UsageError for records without answers or gold answers.
    """
    if not records:
        raise UsageError("there is nothing to audit: give a log")
    branches = [_rivals(record) for record in records]
    ids = list(dict.fromkeys(name for each in branches for name in each))
    found, marked, agreed = _cases(ids, branches, [record.ballot.votes.p for record in records])
    posterior = posterior_wrong(np.array([case.share - case.right for case in found]))
    suspects = [
        _suspect(name, case, float(posterior[place]), records)
        for place, (name, case) in enumerate(zip(ids, found, strict=True))
        if case.suspect
    ]
    better = np.where([case.suspect for case in found], agreed, marked)
    clusters = _clusters(records, ids)
    highest = ceiling(_right_counts(records, ids), clusters)
    return Audit(
        n=len(ids),
        suspects=tuple(sorted(suspects, key=lambda each: (-each.posterior, -each.share))),
        score=mean_share(marked, clusters),
        score_if_right=mean_share(better, clusters),
        ceiling=highest,
        never_right=1 - highest.value,
        branches=tuple(record.info.model or record.path for record in records),
        warnings=tuple(
            dict.fromkeys((*_notes(records), *(n for record in records for n in record.ballot.notes)))
        ),
    )


@frozen
class _Case:
    """One question over its branches: weighted shares of the gold answer and of its strongest rival."""

    right: float
    share: float
    key: str | None
    branches: int
    suspect: bool
    source: tuple[int, int]


def _cases(
    ids: Sequence[str], branches: Sequence[Mapping[str, Rival]], accuracies: Sequence[float]
) -> tuple[list[_Case], FloatArray, FloatArray]:
    """Return each question's weighted shares, its score as marked, and its score if the rival were right."""
    # A branch that is never right has still a voice, or records of such branches alone would have none.
    weights = [max(accuracy, 0.01) for accuracy in accuracies]
    strong = [accuracy >= STRONG for accuracy in accuracies]
    found: list[_Case] = []
    marked, agreed = np.zeros(len(ids)), np.zeros(len(ids))
    for place, name in enumerate(ids):
        said = [(i, each[name]) for i, each in enumerate(branches) if name in each]
        case = _case(said, weights, strong)
        marked[place] = np.mean([rival.right for _, rival in said])
        agreed[place] = np.mean([rival.share if rival.key == case.key else 0.0 for _, rival in said])
        found.append(case)
    return found, marked, agreed


def _case(said: Sequence[tuple[int, Rival]], weights: Sequence[float], strong: Sequence[bool]) -> _Case:
    total = sum(weights[i] for i, _ in said)
    support: dict[str, float] = {}
    for i, rival in said:
        if rival.key is not None:
            support[rival.key] = support.get(rival.key, 0.0) + weights[i] * rival.share
    right = sum(weights[i] * rival.right for i, rival in said) / total
    if not support:
        return _Case(right, 0.0, None, 0, suspect=False, source=(0, 0))
    key = max(support, key=lambda each: support[each])
    agree = [(i, rival) for i, rival in said if rival.key == key and rival.leads]
    alone = any(strong[i] and rival.share > 0.5 for i, rival in agree)
    source = next((i, rival.row) for i, rival in said if rival.key == key)
    return _Case(right, support[key] / total, key, len(agree), len(agree) > 1 or alone, source)


def _rivals(record: Record) -> dict[str, Rival]:
    """Return the vote shares of one branch by question id; UsageError without answers or gold answers."""
    votes = record.ballot.votes
    if votes.answers is None or votes.correct is None:
        lacking = "answers" if votes.answers is None else "gold answers"
        raise UsageError(f"{record.path} has no {lacking}: there is nothing to check")
    item, column, size, right = _answers(votes)
    share = np.bincount(item, size * right, votes.n) / votes.k
    rivals = {name: Rival(float(share[row]), None, 0.0, row) for row, name in enumerate(record.ballot.names)}
    # The most frequent wrong answer comes last, of equally frequent ones the first.
    order = np.lexsort((-size, item))[::-1]
    for place in order[right[order] < 0.5].tolist():
        row = int(item[place])
        key = record.ballot.keys[row][int(column[place])]
        rivals[record.ballot.names[row]] = Rival(float(share[row]), key, float(size[place]) / votes.k, row)
    return rivals


def _answers(votes: Votes) -> tuple[IntArray, IntArray, IntArray, FloatArray]:
    """Return all distinct answers [m]: row, one column that holds it, its votes, and how many are right."""
    codes, k = votes.answered(), votes.k
    flat = np.flatnonzero(codes.ravel() >= 0)
    name = (flat // k) * (int(codes.max(initial=0)) + 1) + codes.ravel()[flat]
    _, first, back, size = np.unique(name, return_index=True, return_inverse=True, return_counts=True)
    right = np.bincount(back.ravel(), votes.scored().ravel()[flat], size.size) / size
    return flat[first] // k, flat[first] % k, size.astype(np.int64), right


def _suspect(name: str, case: _Case, posterior: float, records: Sequence[Record]) -> Suspect:
    branch, row = case.source
    record = records[branch]
    question = record.ballot.questions[row]
    gold = question.gold
    shown = ", ".join(answers.golds(gold)) if gold is not None else ""
    agreed = _answer_text(record, row, str(case.key))
    return Suspect(
        id=name,
        question=question.question,
        gold_answer=shown,
        agreed=agreed,
        share=case.share,
        branches=case.branches,
        posterior=posterior,
        equal_under=None if gold is None else equal_under(agreed, gold),
    )


def _answer_text(record: Record, row: int, key: str) -> str:
    """Return an answer's text as written by the first path with that key."""
    keys, written = record.ballot.keys[row], record.ballot.questions[row].answers
    return next((text for text, own in zip(written, keys, strict=False) if own == key and text), key)


def _right_counts(records: Sequence[Record], ids: Sequence[str]) -> FloatArray:
    """Return the number of right paths over all branches for each question [n]."""
    places = {name: place for place, name in enumerate(ids)}
    solved = np.zeros(len(ids))
    for record in records:
        rows = np.array([places[name] for name in record.ballot.names], np.int64)
        np.add.at(solved, rows, record.ballot.votes.counts)
    return solved


def ceiling(solved: FloatArray, clusters: IntArray) -> Interval:
    """Return the share of questions that any path gets right, from the numbers of right paths [n].

    Wilson's interval over questions; the upper limit also grants what more paths of the same branches would
    solve, by ``unsolved_yet``.
    """
    value = float(np.mean(solved > 0))
    lo, hi = mean_share((solved > 0).astype(np.float64), clusters).limits or (None, None)
    if hi is not None:
        more, spread = unsolved_yet(solved)
        # Two independent errors: of the share seen, and of what is still unsolved.
        reach = math.hypot(hi - value, 1.96 * spread / solved.size)
        hi = min(max(hi, value + more / solved.size + reach), 1.0)
    return Interval(value, lo, hi, "Wilson, clustered; jackknife above")


def _clusters(records: Sequence[Record], ids: Sequence[str]) -> IntArray:
    """Return the cluster of each question [n], from the first record that has it."""
    names: dict[str, tuple[int, int]] = {}
    for number, record in enumerate(records):
        own = record.ballot.votes.cluster_ids
        for row, name in enumerate(record.ballot.names):
            names.setdefault(name, (number, int(own[row])))
    return numbers_of(names[name] for name in ids)


def _notes(records: Sequence[Record]) -> Iterator[Note]:
    if len(records) == 1:
        text = "one model repeats its own errors: to learn more, add logs of other models on these questions"
        yield Note("one_branch", text)
    spaces = sorted({record.ballot.reading.space for record in records})
    if len(spaces) > 1:
        text = f"the logs compare answers differently ({', '.join(spaces)}): say how with --answer-space"
        yield Note("several_spaces", text)
    yield from question_notes([record.path for record in records], [record.ballot for record in records])
