"""What a reading does to the texts of a record: answer, rule and key of each, and what is not read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from keff import answers
from keff.errors import LogError
from keff.log import Question, find_log
from keff.reading.ballot import Reading
from keff.reading.open import Opening, naming, one_part, reading, told
from keff.records import Result

LONGEST = 200
ENDINGS = 10
ENDING = 60


@dataclass(frozen=True, slots=True)
class Sampled(Result):
    """One text: its end, the answer that was read, by which rule (or why none), and its vote key."""

    id: str
    end: str
    answer: str | None
    rule: str
    key: str | None


@dataclass(frozen=True, slots=True)
class Survey(Result):
    """How a record is read by ``space``.

    ``read`` of ``texts`` have a key; ``rules`` counts how they were found, or why they abstain. ``endings``
    are the most frequent ends of the texts that abstain. ``agreement`` is how often two answers of a question
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
    sample: tuple[Sampled, ...]


def survey(path: Path, opening: Opening, *, size: int = 20, seed: int = 0) -> Survey:
    """Read every text of a run or log, and keep a random sample of ``size`` of them.

    Raises LogError where the record holds correctness only.
    """
    log = find_log(path, opening.format)
    with naming(path):
        how = reading(told(log, path, opening), opening)
        questions = one_part(log.questions(path, texts=True), opening.part)
        return _Surveyor(how, size, np.random.default_rng(seed)).over(questions)


class _Surveyor:
    def __init__(self, how: Reading, size: int, rng: np.random.Generator) -> None:
        self.how, self.size, self.rng = how, size, rng
        self.rules, self.endings = Counter[str](), Counter[str]()
        self.sample: list[Sampled] = []
        self.count = self.read = self.questions = 0
        self.whole = False
        self.agreements: list[float] = []

    def over(self, questions: Iterator[Question]) -> Survey:
        """Go through all questions once; memory holds the sample and the counts."""
        for question in questions:
            if question.form == "scores":
                raise LogError("it holds correctness only, and no answers to read")
            self.questions += 1
            keys = [self._path(question.id, text, cut) for text, cut in self._texts(question)]
            counts = Counter(key for key in keys if key is not None)
            if (cast := counts.total()) > 1:
                met = sum(votes * (votes - 1) for votes in counts.values())
                self.agreements.append(met / (cast * (cast - 1)))
        return Survey(
            space=self.how.space,
            whole=self.whole,
            questions=self.questions,
            texts=self.count,
            read=self.read,
            agreement=float(np.mean(self.agreements)) if self.agreements else None,
            rules=dict(self.rules.most_common()),
            endings=dict(self.endings.most_common(ENDINGS)),
            sample=tuple(self.sample),
        )

    def _texts(self, question: Question) -> Iterator[tuple[str, bool]]:
        texts = question.texts or (question.answers if question.form == "completions" else None)
        self.whole = self.whole or texts is not None
        cut = question.truncated or (0,) * len(question.answers)
        for text, truncated in zip(texts or question.answers, cut, strict=True):
            yield text or "", bool(truncated)

    def _path(self, name: str, text: str, truncated: bool) -> str | None:
        said = self._said(text, truncated)
        self.count += 1
        self.read += said.key is not None
        self.rules[said.rule] += 1
        if said.key is None:
            self.endings[_end(text, ENDING)] += 1
        # Reservoir sampling: every text is as likely to be kept, and the log is read once.
        place = len(self.sample) if self.count <= self.size else int(self.rng.integers(self.count))
        if place < self.size:
            kept = Sampled(name, _end(text, LONGEST), _short(said.answer), said.rule, _short(said.key))
            self.sample[place : place + 1] = [kept]
        return said.key

    def _said(self, text: str, truncated: bool) -> answers.Read:
        if self.whole and self.how.read is not None:
            return self.how.read(text, truncated)
        key = self.how.key(text) if text else None
        return answers.Read(text or None, key, "recorded" if key is not None else answers.ABSTAINED)


def _end(text: str, size: int) -> str:
    text = " ".join(text[-4 * size :].split())
    return text if len(text) <= size else f"…{text[-size:]}"


def _short(text: str | None) -> str | None:
    return text if text is None or len(text) <= LONGEST else f"{text[:LONGEST]}…"
