"""Survey of a reading: answer, rule and key of each text, and texts that are not read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from keff import answers
from keff.errors import LogError
from keff.log import Question, find_log
from keff.reading.admit import first_paths
from keff.reading.ballot import Reading, agreement
from keff.reading.open import Opening, log_info, naming, only_part, reading
from keff.records import Result, frozen

# Characters of a text that are shown: its end holds the answer.
LONGEST = 200
# The most frequent ends show what a reader misses; the rest is a long tail.
ENDINGS = 10
# Characters by which two texts end alike.
ENDING = 60


@frozen
class SampleText(Result):
    """One text of the sample: its end, answer, rule (or why none) and vote key."""

    id: str
    end: str
    answer: str | None
    rule: str
    key: str | None


@frozen
class Survey(Result):
    """Summary of how a record is read by ``space``.

    ``read`` of ``texts`` have a key; ``rules`` counts how they were found, or why they abstain. ``endings``
    are the most frequent ends of the texts that abstain. ``marks`` counts the texts that begin with a mark
    which may open thinking and is not known: what stands behind it is read like an answer. ``agreement`` is
    how often two answers of a question
    have one key (None with no question that has two). ``whole`` says that texts were completions, and not
    answers that a log had read already.
    """

    space: str
    whole: bool
    questions: int
    texts: int
    read: int
    agreement: float | None
    rules: Mapping[str, int]
    endings: Mapping[str, int]
    marks: Mapping[str, int]
    sample: tuple[SampleText, ...]


def survey(path: Path, opening: Opening, *, size: int = 20) -> Survey:
    """Return the survey of a run or log, with a random sample of ``size`` texts.

    Raises LogError where the record holds correctness only.
    """
    log, rng = find_log(path, opening.format, opening.options), np.random.default_rng(0)
    with naming(path):
        how = reading(log_info(log, path, opening), opening)
        questions = only_part(log.questions(path, texts=True), opening.part)
        if opening.trim is not None:
            questions = (first_paths(question, opening.trim) for question in questions)
        return _Surveyor(how, size, rng).over(questions)


def _recorded_answer(text: str, how: Reading) -> answers.Read:
    key = how.key(text) if text else None
    return answers.Read(text or None, key, "recorded" if key is not None else answers.ABSTAINED)


def _sample_of(name: str, text: str, said: answers.Read) -> SampleText:
    return SampleText(name, _end(text, LONGEST), _short(said.answer), said.rule, _short(said.key))


class _Surveyor:
    def __init__(self, how: Reading, size: int, rng: np.random.Generator) -> None:
        self.how, self.size, self.rng = how, size, rng
        self.rules, self.endings, self.marks = Counter[str](), Counter[str](), Counter[str]()
        self.sample: list[SampleText] = []
        self.count = self.read = self.questions = 0
        self.whole = False
        self.agreements: list[float] = []

    def over(self, questions: Iterator[Question]) -> Survey:
        """Process all questions in one pass; memory holds the sample and counts."""
        for question in questions:
            if question.form == "scores":
                raise LogError("it holds correctness only, and no answers to read")
            self.questions += 1
            keys = [self._path(question.id, text, said) for text, said in self._readings(question)]
            if (share := agreement(keys)) is not None:
                self.agreements.append(share)
        return self.result()

    def result(self) -> Survey:
        """Return the survey."""
        return Survey(
            space=self.how.space,
            whole=self.whole,
            questions=self.questions,
            texts=self.count,
            read=self.read,
            agreement=float(np.mean(self.agreements)) if self.agreements else None,
            rules=dict(self.rules.most_common()),
            endings=dict(self.endings.most_common(ENDINGS)),
            marks=dict(self.marks.most_common(ENDINGS)),
            sample=tuple(self.sample),
        )

    def _readings(self, question: Question) -> Iterator[tuple[str, answers.Read]]:
        texts = question.texts or (question.answers if question.form == "completions" else None)
        self.whole = self.whole or texts is not None
        cut = question.truncated or (0,) * len(question.answers)
        if question.keys is not None and question.rules is not None and not self.how.again:
            # Read when it was sampled, each question in the answer space of its own.
            held = zip(question.answers, question.keys, question.rules, strict=True)
            said = [answers.Read(*each) for each in held]
        else:
            pairs = zip(texts or question.answers, cut, strict=True)
            said = [self._read_answer(text or "", bool(truncated)) for text, truncated in pairs]
        for text, each in zip(texts or question.answers, said, strict=True):
            yield text or "", each

    def _path(self, name: str, text: str, said: answers.Read) -> str | None:
        self.count += 1
        self.read += said.key is not None
        self.rules[said.rule] += 1
        if said.key is None:
            self.endings[_end(text, ENDING)] += 1
        if mark := answers.unknown_mark(text):
            self.marks[mark] += 1
        # Reservoir sampling: every text is as likely to be kept, and the log is read once.
        place = len(self.sample) if self.count <= self.size else int(self.rng.integers(self.count))
        if place < self.size:
            self.sample[place : place + 1] = [_sample_of(name, text, said)]
        return said.key

    def _read_answer(self, text: str, truncated: bool) -> answers.Read:
        if self.whole and self.how.read is not None:
            return self.how.read(text, truncated)
        return _recorded_answer(text, self.how)


def _end(text: str, size: int) -> str:
    text = " ".join(text[-4 * size :].split())
    return text if len(text) <= size else f"…{text[-size:]}"


def _short(text: str | None) -> str | None:
    return text if text is None or len(text) <= LONGEST else f"{text[:LONGEST]}…"
