"""Matching: whether answers agree often enough for a vote, and how many paths had none."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from shlex import quote

import numpy as np

from keff.analysis.results.estimates import Matching, SplitAnswers
from keff.answers import UNREAD, golds, is_document, only_object, proposed_fields
from keff.answers import space as space_of
from keff.errors import PluginError
from keff.reading.ballot import Ballot
from keff.records import Note
from keff.stats.votes import Votes
from keff.stats.voting.alike import one_of_each, pooled_counts, vote_patterns
from keff.stats.voting.correlation import MEETS, equal_pairs, right_pairs

# Answers that match less often than this are as good as never equal: a second vote takes ten paths.
FLOOR = 0.1


# With fewer questions that have two answers (or two right ones), nothing is said about their reading.
LEAST_QUESTIONS = 5

# Questions shown as examples, and characters of a key: what a terminal can show.
EXAMPLES, LONGEST_KEY = 5, 200

# Questions whose answers say whether a record is one of JSON: others are not read again for its fields.
FIRST_QUESTIONS = 20

# Answer spaces in which a gold answer may equal another, the plainest first.
PLAIN = ("numeric", "text", "date", "set")
# The last take as long to load as a small record to analyse.
WIDER = (*PLAIN, "math", "quantity")

# Questions that are looked at for fields of JSON, and fields that are named with the reason.
MOST_QUESTIONS, MOST_NAMED = 200, 5

# Why a path abstained where the record does not say.
NO_ANSWER = "no answer"

# The first line of the output where it is so.
RARE = "answers are rarely equal as written, so votes mean little here"

REMEDY = (
    "choose how keff reads them before you vote (keff read shows it): another --answer-space, "
    "json:fields=..., or your own --answer-key FILE.py:function"
)


def matching(ballot: Ballot) -> Matching | None:
    """Return agreement statistics of answers; None for correctness-only records, or one path."""
    votes = ballot.votes
    if votes.answers is None or votes.k < 2:
        return None
    agreement, several, singles = _agreement(votes)
    met, right, split, examples = _right_agreement(ballot)
    chance = _chance(votes)
    return Matching(
        questions=several,
        agreement=agreement,
        chance=chance,
        singles=singles,
        right_questions=right,
        right_agreement=met,
        split=split,
        examples=examples,
        abstentions=_abstentions(ballot),
        rare=_rare(agreement, max(chance or 0.0, FLOOR), several) or _rare(met, MEETS, right),
    )


def notes(matching: Matching | None) -> Iterator[Note]:
    """Yield warnings on answers that seldom match, or right ones that differ."""
    if matching is None:
        return
    if lost := matching.abstentions.get(UNREAD):
        yield Note(
            "unread_answers",
            f"keff lost the process that was reading {lost} of the answers, and counts them as no answer. "
            "Read the run again: keff score",
        )
    if matching.rare:
        yield Note("answers_rarely_equal", f"{RARE} ({_numbers(matching)}). {REMEDY[0].upper()}{REMEDY[1:]}")
    if matching.split and matching.examples:
        first = matching.examples[0]
        shown = " and ".join(repr(key) for key in first.keys[:2])
        yield Note(
            "right_answers_split",
            f"keff reads answers marked right as different in {matching.split} of {matching.right_questions} "
            f"questions, such as {shown} in {first.id}. They do not vote together",
        )


def field_notes(ballot: Ballot) -> Iterator[Note]:
    """Yield notes on JSON members that differ in every answer, and on those that can vote."""
    if "fields" in ballot.reading.space or not _mostly_json(_answers(ballot, FIRST_QUESTIONS)):
        return
    voting = proposed_fields(_answers(ballot, MOST_QUESTIONS))
    left_out = "; ".join(
        f"{name} ({why})" for name, why in list(voting.left_out.items())[:MOST_NAMED] if name
    )
    if not left_out:
        return
    if voting.space is None:
        text = f"the answers are JSON, and no field of them can be voted on: {left_out}"
    else:
        kept = ", ".join(voting.fields)
        text = f"the answers are JSON: of their fields {kept} can be voted on, others cannot: {left_out}"
        text = f"{text}; read them so with --answer-space {quote(voting.space)}"
    yield Note("json_fields", text)


def reading_notes(ballot: Ballot) -> Iterator[Note]:
    """Yield notes where repeats are taken for questions, or right answers compare as wrong ones."""
    reading, n, asked = ballot.reading, ballot.votes.n, ballot.questions.asked
    if ballot.votes.k == 1 and asked is not None and asked.all() and 2 * np.unique(asked).size <= n:
        text = f"{n} ids have one path each, but only {np.unique(asked).size} questions are different"
        yield Note(
            "one_path_each",
            f"{text}. Name the column that tells questions apart, such as their text: --columns id=NAME",
        )
    wrong = [
        (answer, question.gold)
        for question in ballot.questions[:FIRST_QUESTIONS]
        if question.correct is None and question.gold is not None
        for answer in dict.fromkeys(question.answers)
        if answer and not reading.correct(answer, question.gold)
    ]
    named = [(name, answer, gold) for answer, gold in wrong if (name := equal_under(answer, gold, PLAIN))]
    # From a tenth on the space is at fault.
    if named and 10 * len(named) >= len(wrong):
        name, answer, gold = named[0]
        yield Note(
            "gold_unequal",
            f"{len(named)} of {len(wrong)} wrong answers equal the gold answer in another answer space: for "
            f"example {answer!r} is {', '.join(golds(gold))!r} as {name} (--answer-space {name})",
        )


def equal_under(answer: str, gold: object, spaces: Sequence[str] = WIDER) -> str | None:
    """Return the first, plainest answer space that equates an answer with a gold one, or None."""
    # Whole numbers are never equal otherwise than as written, and to load what reads them takes its time.
    if all(re.fullmatch("[1-9][0-9]*", each) for each in (answer, *golds(gold))):
        return None
    for name in spaces:
        with suppress(PluginError):  # an extra may be missing
            space = space_of(name)
            own = space.key(answer)
            if own is not None and any(space.key(each) == own for each in golds(gold)):
                return name
    return None


def _answers(ballot: Ballot, most: int) -> list[list[str]]:
    return [[answer for answer in question.answers if answer] for question in ballot.questions[:most]]


def _mostly_json(questions: list[list[str]]) -> bool:
    given = Counter(answer for question in questions for answer in question)
    json = (
        times for answer, times in given.items() if is_document(answer) or only_object(answer) is not None
    )
    return 2 * sum(json) > given.total()


def agreement_sentences(matching: Matching | None) -> Iterator[str]:
    """Yield the sentences on agreement of answers and abstentions that every analysis prints."""
    if matching is None:
        return
    if matching.agreement is not None:
        rare = f"; in {matching.singles} of {matching.questions} questions no two are"
        apart = rare if matching.singles else ""
        yield f"two answers to a question are equal {matching.agreement:.0%} of the time{apart}"
    if matching.right_agreement is not None:
        split = f"; in {matching.split} of {matching.right_questions} questions some differ"
        apart = split if matching.split else ""
        yield f"two right answers to a question are equal {matching.right_agreement:.0%} of the time{apart}"
    if matching.abstentions:
        reasons = ", ".join(f"{reason} {count}" for reason, count in list(matching.abstentions.items())[:5])
        yield f"paths that abstained: {reasons}"


def _numbers(matching: Matching) -> str:
    parts = [f"two answers to a question agree {matching.agreement or 0:.0%} of the time"]
    if matching.singles:
        parts.append(f"in {matching.singles} of {matching.questions} questions no two do")
    if matching.right_agreement is not None:
        parts.append(f"two right ones {matching.right_agreement:.0%} of the time")
    return ", ".join(parts)


def _rare(value: float | None, least: float, questions: int) -> bool:
    return value is not None and questions >= LEAST_QUESTIONS and value < least


def _agreement(votes: Votes) -> tuple[float | None, int, int]:
    """Return the agreement of answers, the questions with two answers, and those without any match."""
    codes = one_of_each(votes).answered()
    given = np.sum(codes >= 0, axis=1)
    same, pairs = equal_pairs(codes), given * (given - 1) / 2
    several = pairs > 0
    counts, share = vote_patterns(votes).counts[several], same[several] / pairs[several]
    agreement = float(counts @ share / counts.sum()) if several.any() else None
    return agreement, int(counts.sum()), int(counts[share == 0].sum())


def _chance(votes: Votes) -> float | None:
    """Return the chance agreement of pooled answers, where keys mean the same in every question."""
    if votes.answers is None or not votes.closed:
        return None
    counts = pooled_counts(votes.answers)
    return float(np.sum((counts / counts.sum()) ** 2)) if counts.size else None


def _right_agreement(ballot: Ballot) -> tuple[float | None, int, int, tuple[SplitAnswers, ...]]:
    """Return the agreement of right answers, questions with a right pair, split ones, and examples."""
    votes = ballot.votes
    if votes.correct is None or votes.answers is None:
        return None, 0, 0, ()
    patterns, (same, pairs) = vote_patterns(votes), right_pairs(votes)
    counts, split = patterns.counts, same < pairs
    met = float(counts @ same / (counts @ pairs)) if pairs.any() else None
    first = np.flatnonzero(split[patterns.back])[:EXAMPLES] if split.any() else ()
    examples = tuple(_example(ballot, int(row)) for row in first)
    return met, int(counts[pairs > 0].sum()), int(counts[split].sum()), examples


def _example(ballot: Ballot, row: int) -> SplitAnswers:
    right = ballot.votes.scored()[row].tolist()
    count = Counter(key for key, y in zip(ballot.keys[row], right, strict=True) if key is not None and y > 0)
    return SplitAnswers(ballot.questions[row].id, tuple(key[:LONGEST_KEY] for key, _ in count.most_common(3)))


def _abstentions(ballot: Ballot) -> dict[str, int]:
    """Return abstaining paths by recorded reason; ``no answer`` without one."""
    votes, rules = ballot.votes.answers, ballot.rules
    if votes is None:
        return {}
    silent = votes < 0
    if rules is None:
        return {NO_ANSWER: int(silent.sum())} if silent.any() else {}
    codes, counts = np.unique(rules.codes[silent], return_counts=True)
    named: Counter[str] = Counter()
    for code, count in zip(codes, counts, strict=True):
        named[NO_ANSWER if code < 0 else rules.names[int(code)]] += int(count)
    return dict(named.most_common())
