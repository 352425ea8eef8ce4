"""Alignment of several records by question id into one group of branches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import TypeVar, cast

import numpy as np

from keff.errors import LogError, UsageError
from keff.log import Question
from keff.policy.spec import branch_name
from keff.reading.ballot import Ballot
from keff.reading.copies import check_separate, question_notes
from keff.reading.open import Record, SourceKind
from keff.reading.questions import Coded, RecordedQuestions
from keff.records import Note, frozen
from keff.stats.models.tries import votes_of_verdicts
from keff.stats.votes import Float32Array, FloatArray, IntArray, Votes
from keff.stats.voting.alike import dense_codes

# So many ids are named in a message.
SHOWN = 5


def check_spaces(ballots: Sequence[tuple[str, str | None, Ballot]]) -> None:
    """Raise UsageError unless all records share an answer space and have answers and gold."""
    spaces = {ballot.reading.space: name for name, _, ballot in ballots}
    if len(spaces) > 1:
        told = ", ".join(f"{name} as {space}" for space, name in spaces.items())
        raise UsageError(f"answers are read in different spaces ({told}): name one with --answer-space")
    alone = [name for name, _, ballot in ballots if ballot.votes.answers is None]
    if alone and len(alone) < len(ballots):
        raise UsageError(
            f"{alone[0]} holds verdicts only, and other branches hold answers: give the same of all"
        )
    for name, _, ballot in ballots:
        if ballot.votes.correct is None:
            raise UsageError(f"{name} has no gold answers: what a branch is worth needs them")


def by_id(name: str, ballot: Ballot) -> dict[str, int]:
    """Return each question's row by id; raises LogError for duplicates."""
    ids = ballot.names
    repeated = [key for key, count in Counter(ids).items() if count > 1]
    if repeated:
        raise LogError(f"{name}: {_some(repeated, 'duplicate id', 'duplicate ids')}: keep one of each")
    return {key: row for row, key in enumerate(ids)}


def shared(names: Sequence[str], rows: Sequence[dict[str, int]]) -> list[str]:
    """Return the ids present in all branches, in the first one's order.

    Raises UsageError where there is none.
    """
    common = [key for key in rows[0] if all(key in row for row in rows[1:])]
    if common:
        return common
    for (a, left), (b, right) in combinations(zip(names, rows, strict=True), 2):
        if not left.keys() & right.keys():
            example = f"{next(iter(left))!r} in {a}, {next(iter(right))!r} in {b}"
            raise UsageError(f"{a} and {b} share no question id: are they of the same task? ({example})")
    raise UsageError(
        f"no question is in all {len(rows)} branches: leave out the branch that has other questions"
    )


def check_gold(names: Sequence[str], ids: Sequence[str], golds: Sequence[Sequence[object]]) -> None:
    """Raise UsageError where gold answers [n] differ between branches."""
    first = next((own for own in golds if all(gold is not None for gold in own)), None)
    if first is None:
        return
    for name, own in zip(names, golds, strict=True):
        differ = [
            key
            for key, mine, other in zip(ids, first, own, strict=True)
            if other is not None and mine != other and str(mine).strip() != str(other).strip()
        ]
        if differ:
            raise UsageError(
                f"{name}: gold answers differ from those of the other branches on {len(differ)} of "
                f"{len(ids)} questions ({_some(differ, 'id', 'ids')}): are they of the same task?"
            )


def _some(ids: Sequence[str], singular: str, plural: str) -> str:
    shown = ", ".join(repr(key) for key in ids[:SHOWN])
    more = f" and {len(ids) - SHOWN} more" if len(ids) > SHOWN else ""
    return f"{singular if len(ids) == 1 else plural} {shown}{more}"


T = TypeVar("T")

# Branches that share a smaller part of their questions than this are warned about.
FEW_SHARED = 0.5


@frozen
class AlignedBranch:
    """One branch of a group: its votes [n, K] on the shared questions.

    ``keys`` [n][K] are its canonical answers and ``questions`` [n] what was recorded.
    """

    name: str
    model: str | None
    votes: Votes
    keys: Sequence[tuple[str | None, ...]]
    questions: Sequence[Question]


@frozen
class Aligned:
    """Branches on the same n questions.

    Answer codes are shared by the branches of a question: equal codes are equal answers. ``credit`` [n, W]
    is how right each answer is (its mean correctness over all recorded paths that give it, for a log may
    call two equal answers right and wrong). ``clusters`` [n] are the independent units. ``sources`` says
    whether the slots (else the columns) of a branch are some of many or all there are, where that was said.
    ``verdicts_only``: no answers are recorded, and what passes counts as one.
    """

    ids: tuple[str, ...]
    branches: tuple[AlignedBranch, ...]
    credit: FloatArray
    clusters: IntArray
    space: str
    notes: tuple[Note, ...]
    sources: SourceKind | None = None
    verdicts_only: bool = False

    @property
    def n(self) -> int:
        """The number of shared questions."""
        return len(self.ids)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the branches."""
        return tuple(branch.name for branch in self.branches)

    @property
    def answered(self) -> Float32Array:
        """The share of each branch's paths that answer, of every question [A, n]."""
        shares = [np.mean(branch.votes.answered() >= 0, axis=1) for branch in self.branches]
        return np.array(shares, np.float32)

    def take(self, items: Sequence[int] | IntArray) -> Aligned:
        """Return the group restricted to some questions."""
        rows = np.asarray(items, np.int64)
        branches = tuple(
            replace(
                branch,
                votes=branch.votes.take(rows),
                keys=_entries_at(branch.keys, rows),
                questions=_entries_at(branch.questions, rows),
            )
            for branch in self.branches
        )
        places: list[int] = rows.tolist()
        ids = tuple(self.ids[row] for row in places)
        return replace(
            self, ids=ids, branches=branches, credit=self.credit[rows], clusters=self.clusters[rows]
        )


def align(records: Sequence[Record], called: Sequence[str] | None = None, *, least: int = 2) -> Aligned:
    """Return records aligned by question id, one or more branches each.

    ``called`` names the branches otherwise than their records do.
    Keeps the questions that all branches share, and says how many that are. Raises UsageError for fewer
    than ``least`` branches, for records whose answers are read in different spaces or lack gold answers, for
    gold answers that differ, and where no question is shared.
    """
    stems = dict(
        zip((record.path for record in records), own_parts([Path(r.path).stem for r in records]), strict=True)
    )
    # Branches of one model, two prompts of it say, are told apart by their files.
    models = Counter(record.info.model for record in records)
    ballots = [
        part
        for record in records
        for part in _branches_of(record, stems[record.path], alone=models[record.info.model] == 1)
    ]
    if len(ballots) < least:
        raise UsageError("one branch only: give a record for each branch, or one with several models")
    check_spaces(ballots)
    names = unique_names([branch_name(name) for name in called or [name for name, _, _ in ballots]])
    rows = [by_id(name, ballot) for name, (_, _, ballot) in zip(names, ballots, strict=True)]
    ids = shared(names, rows)
    picked = [
        ballot.take(np.array([row[i] for i in ids], np.int64))
        for row, (_, _, ballot) in zip(rows, ballots, strict=True)
    ]
    check_gold(names, ids, [ballot.golds for ballot in picked])
    if verdicts_only := picked[0].votes.answers is None:
        picked = [replace(ballot, votes=votes_of_verdicts(ballot.votes)) for ballot in picked]
        codes, credit = [ballot.votes.answered() for ballot in picked], np.ones((len(ids), 1))
    else:
        codes, credit = _shared_codes(picked)
    alike = check_separate(names, codes, [ballot.votes.tokens for ballot in picked])
    clusters = _clusters(ids, picked)
    branches = tuple(
        AlignedBranch(
            name,
            model,
            replace(ballot.votes, answers=code, clusters=clusters),
            ballot.keys,
            ballot.questions,
        )
        for name, (_, model, _), ballot, code in zip(names, ballots, picked, codes, strict=True)
    )
    notes = (
        *_notes_by_branch(names, ballots),
        *_coverage(names, rows, ids),
        *question_notes(names, picked),
        *alike,
    )
    kind: SourceKind | None = next((record.sources for record in records if record.sources is not None), None)
    if kind == "random":
        text = (
            "keff takes the prompts or judges of each branch as a sample of many: its intervals of accuracy "
            "are for others like these. For these alone: --sources fixed"
        )
        notes = (*notes, Note("random_sources", text))
    space = picked[0].reading.space
    return Aligned(tuple(ids), branches, credit, clusters, space, notes, kind, verdicts_only)


def own_parts(stems: Sequence[str]) -> list[str]:
    """Return file names without their common prefix, up to an underscore."""
    first, last = min(stems), max(stems)
    shared = first if len(stems) > 1 else ""
    while not last.startswith(shared):
        shared = shared[:-1]
    begin = shared.rfind("_") + 1
    return [stem[begin:] or stem for stem in stems]


def _branches_of(record: Record, stem: str, *, alone: bool) -> list[tuple[str, str | None, Ballot]]:
    """Return a record's branches: by its columns, its slots, or the record itself.

    ``alone``: no other record is of its model, whose name is then that of the branch. A record whose slots
    are said to be sources is one branch.
    """
    held = record.ballot
    columns = None if record.sources is not None else _columns(record)
    if columns is None:
        model = record.info.model
        return [(branch_name((alone and model) or stem), model, held)]
    places = {name: [at for at, own in enumerate(columns) if own == name] for name in dict.fromkeys(columns)}
    alone_votes = {name: held.of_columns(own) for name, own in places.items()}
    return [
        (branch_name(name), name, replace(own, votes=replace(own.votes, slots=None)))
        for name, own in alone_votes.items()
    ]


def _columns(record: Record) -> tuple[str, ...] | None:
    """Return each column's branch, where a record has several branches or slots."""
    slots = record.ballot.votes.slots
    if slots is None:
        return None
    numbers: list[int] = slots.tolist()
    return tuple(record.branches[slot] if record.branches else f"slot-{slot}" for slot in numbers)


def unique_names(names: Sequence[str]) -> list[str]:
    """Return the names, repeated ones with -2, -3, ... appended."""
    seen: Counter[str] = Counter()
    out: list[str] = []
    for name in names:
        seen[name] += 1
        out.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return out


def joined_rows(group: Aligned) -> Iterable[dict[str, object]]:
    """Yield one JSON-able row per shared question, with ``branches`` beside its paths."""
    lists = {"all_correct": "correct", "all_tokens": "tokens", "all_confidences": "confidences"}
    for row, key in enumerate(group.ids):
        questions = [branch.questions[row] for branch in group.branches]
        sizes = [branch.votes.k for branch in group.branches]
        told: dict[str, object] = {
            "id": key,
            "gold_answer": next((q.gold for q in questions if q.gold is not None), None),
        }
        cluster = next((q.cluster for q in questions if q.cluster), "")
        told |= {"cluster": cluster} if cluster else {}
        told["answer_space"] = group.space
        told["all_answers"] = _together([q.answers for q in questions], sizes)
        told["all_keys"] = [k for branch in group.branches for k in branch.keys[row]]
        for name, field in lists.items():
            values = [getattr(question, field) for question in questions]
            if field == "correct":
                values = [branch.votes.scored()[row].tolist() for branch in group.branches]
            if all(value is not None for value in values):
                told[name] = _together(values, sizes)
        told["branches"] = [branch.name for branch in group.branches for _ in range(branch.votes.k)]
        yield told


def _together(values: Sequence[Sequence[T]], sizes: Sequence[int]) -> list[T]:
    return [held for value, size in zip(values, sizes, strict=True) for held in value[:size]]


def _entries_at(values: Sequence[T], rows: IntArray) -> Sequence[T]:
    """Return the entries of some rows."""
    if isinstance(values, RecordedQuestions):
        return cast("Sequence[T]", values.take(rows))
    if isinstance(values, Coded):
        return cast("Sequence[T]", Coded(values.codes[rows], values.names))
    places: list[int] = rows.tolist()
    return tuple(values[row] for row in places)


def _shared_codes(ballots: Sequence[Ballot]) -> tuple[list[IntArray], FloatArray]:
    """Return each question's answers numbered over all branches, with mean correctness."""
    numbers: dict[str, int] = {}
    together = np.concatenate([_key_numbers(ballot, numbers) for ballot in ballots], axis=1)
    codes: IntArray = dense_codes(together).astype(np.int64)
    right = np.concatenate([ballot.votes.scored() for ballot in ballots], axis=1)
    width = max(1, int(codes.max(initial=-1)) + 1)
    place, path = np.nonzero(codes >= 0)
    cell = place * width + codes[place, path]
    shape = (len(codes), width)
    given = np.bincount(cell, minlength=shape[0] * width)
    credit = np.bincount(cell, weights=right[place, path], minlength=given.size) / np.maximum(given, 1)
    ends = np.cumsum([ballot.votes.k for ballot in ballots])[:-1]
    return np.split(codes, ends, axis=1), credit.reshape(shape)


def _key_numbers(ballot: Ballot, numbers: dict[str, int]) -> IntArray:
    """Return a ballot's keys [n, K] as integers, -1 for none; ``numbers`` are shared by all ballots."""
    keys = ballot.keys
    own = [numbers.setdefault(name, len(numbers)) for name in keys.names]
    return np.array([*own, -1], np.int64)[keys.codes]


def _clusters(ids: Sequence[str], ballots: Sequence[Ballot]) -> IntArray:
    """Return cluster numbers: questions clustered together in any branch are together."""
    root = list(range(len(ids)))

    def find(row: int) -> int:
        while root[row] != row:
            root[row] = row = root[root[row]]
        return row

    for ballot in ballots:
        first: dict[int, int] = {}
        for row, number in enumerate(ballot.votes.cluster_ids.tolist()):
            root[find(row)] = find(first.setdefault(number, row))
    return np.unique([find(row) for row in range(len(ids))], return_inverse=True)[1].astype(np.int64)


def _notes_by_branch(
    names: Sequence[str], ballots: Sequence[tuple[str, str | None, Ballot]]
) -> Iterable[Note]:
    for name, (_, _, ballot) in zip(names, ballots, strict=True):
        for note in ballot.notes:
            yield replace(note, message=f"{name}: {note.message}")


def _coverage(names: Sequence[str], rows: Sequence[dict[str, int]], ids: Sequence[str]) -> Iterable[Note]:
    left_out = {
        name: len(row) - len(ids) for name, row in zip(names, rows, strict=True) if len(row) > len(ids)
    }
    if not left_out:
        return
    told = ", ".join(f"{count} of {name}" for name, count in left_out.items())
    code = "few_shared" if len(ids) < FEW_SHARED * max(map(len, rows)) else "not_shared"
    yield Note(code, f"all branches share {len(ids)} questions; left out: {told}")
