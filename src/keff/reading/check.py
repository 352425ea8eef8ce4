"""Checks of a record's questions before any figure: whether gold answers and answers can ever meet."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice

from keff import answers
from keff.answers import golds
from keff.errors import LogError
from keff.log import Question
from keff.logs.parts.values import JUDGEMENTS
from keff.reading.ballot import Ballot, Reading
from keff.reading.branches import with_copies_together
from keff.records import Note

# Questions that are looked at: the form of gold answers shows on a few.
MOST_LOOKED_AT = 300
# Of fewer questions it may be chance that none was answered rightly.
ENOUGH = 10
# Of the questions that no answer met, so many are read in other spaces, so many paths of each.
TRIED_ON, PATHS = 50, 8
# Characters beyond which an answer is a whole text.
LONG = 80
# A wrong answer that leads on so many questions, and on this share of them, is looked at.
FEWEST_LED, LED_SHARE, MOST_LED = 5, 0.05, 2000
# Spaces that are tried for advice, the plainest first.
TRIED = ("numeric", "choice", "binary", "math", "text")
_TEXT = "long text"
_NUMBER = re.compile(r"[-+]?[$€£]?[\d.,\s]*\d[\d.,\s]*%?")


def check_ballot(ballot: Ballot) -> Ballot:
    """Return the ballot with notes on answers that cannot be what they seem, and copied questions together.

    Raises LogError where no figure would mean anything.
    """
    return with_copies_together(with_judgements_checked(with_leader_checked(with_gold_checked(ballot))))


def with_judgements_checked(ballot: Ballot) -> Ballot:
    """Return the ballot, with a note where nothing but its answers ("pass", "fail") judges answers."""
    said = ballot.keys.names
    if (
        ballot.votes.correct is not None
        or len(said) < 2
        or not all(key.lower() in JUDGEMENTS for key in said)
    ):
        return ballot
    text = (
        f"all answers are {' or '.join(map(repr, sorted(said)))}. If they say which paths are right, name "
        "their column: --columns correct=NAME"
    )
    return replace(ballot, notes=(Note("judgements", text), *ballot.notes))


def with_leader_checked(ballot: Ballot) -> Ballot:
    """Return the ballot, with a note where an answer that is never right leads on unlike questions.

    In an open answer space one answer that wins the vote on questions of different gold is most likely what
    a scorer or a server wrote in place of an answer.
    """
    votes = ballot.votes
    if votes.correct is None or votes.answers is None or votes.closed or len(votes.correct) < FEWEST_LED:
        return ballot
    looked = min(len(votes.correct), MOST_LED)
    right = set[str]()
    led: dict[str, list[int]] = {}
    for row, keys in enumerate(islice(iter(ballot.keys), looked)):
        good = votes.correct[row].tolist()
        right.update(key for key, each in zip(keys, good, strict=True) if each and key is not None)
        if counts := Counter(key for key in keys if key is not None):
            led.setdefault(counts.most_common(1)[0][0], []).append(row)
    never = {key: rows for key, rows in led.items() if key not in right}
    key = max(never, key=lambda each: len(never[each]), default="")
    rows = never.get(key, [])
    if len(rows) < max(FEWEST_LED, LED_SHARE * looked):
        return ballot
    golds = {str(ballot.questions[row].gold) for row in rows[:ENOUGH]}
    if len(golds) < FEWEST_LED:
        return ballot
    text = (
        f"the answer {_examples([key])} leads on {len(rows)} of {looked} questions and is right on none. "
        "If it means that no answer was found, leave it empty in the record"
    )
    return replace(ballot, notes=(Note("wrong_leader", text), *ballot.notes))


def with_gold_checked(ballot: Ballot) -> Ballot:
    """Return the ballot, with a note where hardly any gold answer is ever given.

    Of ``ENOUGH`` questions or more whose gold answers have another form than all answers (0 to 3 beside A to
    D), or are met only in another answer space, no figure would mean anything: raises LogError that shows
    both and says what to do. Verdicts that the record gives itself are taken as they are.
    """
    correct = ballot.votes.correct
    if correct is None or ballot.votes.answers is None or 2 * int(correct.any(axis=1).sum()) > len(correct):
        return ballot
    unmet: list[Question] = []
    looked = given = 0
    forms: set[str] = set()
    for row, question in enumerate(islice(iter(ballot.questions), MOST_LOOKED_AT)):
        # Which members of an object vote is another question, and has a note of its own.
        said = [answer for answer in question.answers if answer is not None]
        if question.gold is None or question.correct is not None:
            continue
        if _are_objects(question, ballot.reading.space):
            continue
        looked += 1
        given += bool(said)
        forms.update(map(_form, said))
        if not correct[row].any():
            unmet.append(question)
    if not given or not unmet:
        return ballot
    # What a whole text says may have any form.
    strange = [q for q in unmet if _TEXT not in forms and not forms.intersection(map(_form, golds(q.gold)))]
    if 2 * len(strange) <= looked and len(unmet) < looked:
        return ballot
    shown = strange or unmet
    met = looked - len(unmet)
    count, verb = (f"only {met}", "are") if met > 1 else ("only 1", "is") if met else ("none", "is")
    gold = _examples(each for question in shown for each in golds(question.gold))
    said = _examples(answer for question in shown for answer in question.answers if answer is not None)
    text = f"{count} of {looked} gold answers {verb} ever given: gold looks like {gold}, answers like {said}"
    remedy = _remedy(shown, ballot.reading)
    if len(unmet) >= ENOUGH and (2 * len(strange) > looked or remedy):
        raise LogError(f"{text}: {remedy or 'write the gold answers as answers are written'}")
    note = Note("gold_never_given", f"{text}: {remedy or 'check that they belong to these questions'}")
    return replace(ballot, notes=(note, *ballot.notes))


def _are_objects(question: Question, space: str) -> bool:
    """Return whether gold answer and answers are JSON objects, which ``json`` finds in prose too."""
    return isinstance(question.gold, dict) and (
        space.startswith("json") or any((each or "").lstrip()[:1] == "{" for each in question.answers)
    )


def _remedy(questions: Sequence[Question], how: Reading) -> str | None:
    """Return the option under which most gold answers are met by an answer; None where there is none."""
    for name in TRIED:
        space = answers.space(name)
        met = sum(_met(question, space) for question in questions[:TRIED_ON])
        if name != how.space and 2 * met > min(len(questions), TRIED_ON):
            return f"--answer-space {name} --rescore reads both alike"
    return None


def _met(question: Question, space: answers.Space) -> bool:
    """Return whether an answer is right in a space; where answers are whole texts, as read from them."""
    gold = answers.stated_gold(space, question.gold)
    for answer in filter(None, question.answers[:PATHS]):
        if space.correct(answer, gold):
            return True
        read = answers.read(space, answer).answer if len(answer) > LONG else None
        if read is not None and space.correct(read, gold):
            return True
    return False


def _form(answer: str) -> str:
    text = answer.strip()
    if _NUMBER.fullmatch(text):
        return "number"
    if len(text.strip("().[] ")) == 1:
        return "letter"
    if "\\boxed" in text or text[:1] in ("[", "{"):
        return text[:1]
    return "text" if len(text) < LONG else _TEXT


def _examples(texts: Iterable[str]) -> str:
    seen = dict.fromkeys(texts)
    return (
        ", ".join(repr(text if len(text) <= 40 else f"{text[:40]}...") for text in islice(seen, 3))
        or "nothing"
    )
