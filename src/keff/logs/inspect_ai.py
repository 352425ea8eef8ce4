"""Logs of inspect_ai, .eval or .json: epochs are the repeats; read without inspect installed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from keff.log import Form, LogInfo, Question, Tell, unheard
from keff.logs.parts.foreign import Graded, LeftOut
from keff.logs.parts.inspect_log import (
    Sample,
    Scores,
    by_question,
    completion,
    configuration,
    epoch,
    expected,
    header,
    is_whole,
    options,
    prompt,
    refusal,
)
from keff.logs.parts.tabled import question_of
from keff.logs.parts.values import at, inner, known_task, number_or_none, optional_text
from keff.narrow import entries
from keff.records import Note

# Questions from which it is told what the log's answers are.
LOOKED_AT = 64


@dataclass(slots=True)
class _Reading:
    """One pass over a log: the scores that count, what the answers are, and what is left out."""

    path: Path
    scores: Scores
    form: Form = "scores"
    texts: bool = False
    left_out: LeftOut = field(default_factory=LeftOut)
    samples: int = 0


class InspectAi(Graded):
    """Reader of inspect_ai's logs.

    The answer and the score are those of one scorer: ``scorer``, else the first. Whether a score says right
    is in ``Scores``. Where scorers put the whole completion into the answer, it is read as a completion;
    where they name no answer at all, only correctness is kept. Samples that ended in an error or were not
    scored are left out and counted. A ``.json`` log is read as a whole and may have up to 1 GiB; an ``.eval``
    log is read question by question.
    """

    name = "inspect_ai"

    def refuses(self, path: Path) -> str | None:
        """Return why this is not a file of the format, or None when it is."""
        return refusal(path)

    def info(self, path: Path) -> LogInfo:
        """Return what the log says about itself."""
        about = header(path)
        spec = inner(about, "eval")
        model = optional_text(spec.get("model"))
        task = known_task(str(spec.get("task", "")))
        return LogInfo(
            task=task,
            model=model,
            config=configuration(about, task),
            options=options(about),
            stopped=bool(inner(about, "results", "early_stopping")),
        )

    def questions(self, path: Path, *, texts: bool = False, tell: Tell = unheard) -> Iterator[Question]:
        """Read question by question; see ``Log.questions``."""
        reading = self._look(path, texts=texts)
        kept = 0
        for where, samples in by_question(path):
            question = _question(where, samples, reading)
            if question is not None:
                kept += 1
                yield question
        if not kept and reading.left_out:
            raise reading.left_out.refuse("sample")
        for note in self._notes(path, reading):
            tell(note)
        reading.left_out.say("samples", tell)

    def _look(self, path: Path, *, texts: bool) -> _Reading:
        """Learn the scorers and the form of the answers from the first questions."""
        scores = Scores(self.scorer, self.threshold)
        whole: list[bool | None] = []
        stated = 0
        groups = [samples for _, samples in islice(by_question(path), LOOKED_AT)]
        for samples in groups:
            scores.learn(samples)
        for sample in (sample for samples in groups for sample in samples if not sample.get("error")):
            score = scores.score(sample)
            stated += bool(optional_text(score.get("answer")))
            whole.append(is_whole(sample, score))
        form: Form = "answers" if stated else "scores"
        if True in whole and False not in whole:
            form = "completions"
        return _Reading(path, scores, form, texts)

    def _notes(self, path: Path, reading: _Reading) -> Iterator[Note]:
        about = header(path)
        status = str(about.get("status") or "started")
        if status != "success":
            error = str(at(about, "error/message") or "").split("\n")[0][:120]
            size = expected(inner(about, "eval"))
            of = f" of {size}" if size else ""
            why = f" ({error})" if error else ""
            text = f"the log ended with status {status}{why}: it holds {reading.samples}{of} samples"
            yield Note("log_status", text)
        if reading.scores.partial:
            text = (
                f"{reading.scores.partial} partial grades (P) count as wrong: "
                "--format inspect_ai:threshold=0.5 takes them"
            )
            yield Note("partial_grades", text)
        others = [name for name in reading.scores.names if name != reading.scores.name]
        if others and self.scorer is None:
            first = reading.scores.name
            text = (
                f"the first scorer, {first}, counts: "
                f"--format inspect_ai:scorer=NAME takes another ({', '.join(others)})"
            )
            yield Note("other_scorers", text)


def _question(where: str, samples: Sequence[Sample], reading: _Reading) -> Question | None:
    """Return one question with its usable samples, None without any."""
    usable: list[Sample] = []
    judged: list[tuple[int | None, float]] = []
    reading.scores.learn(samples)
    for sample in samples:
        reading.samples += 1
        value = None if sample.get("error") else reading.scores.value(where, sample)
        if value is None:
            reading.left_out["ended in an error" if sample.get("error") else "has no score"] += 1
            continue
        usable.append(sample)
        judged.append(reading.scores.judged(where, value))
    if not usable:
        return None
    return _asked(where, usable, judged, reading)


def _asked(
    where: str, samples: Sequence[Sample], judged: Sequence[tuple[int | None, float]], reading: _Reading
) -> Question:
    first = samples[0]
    texts = [completion(sample) for sample in samples]
    lists = {
        "all_correct": [correct for correct, _ in judged],
        "all_tokens": [at(sample, "output/usage/output_tokens") for sample in samples],
        "all_prompt_tokens": [at(sample, "output/usage/input_tokens") for sample in samples],
        "all_seconds": [number_or_none(at(sample, "output/time")) for sample in samples],
        "all_truncated": list(map(_cut, samples)),
    }
    row: dict[str, object] = {name: values for name, values in lists.items() if None not in values}
    row |= {"id": first.get("id"), "gold_answer": first.get("target"), "question": prompt(first.get("input"))}
    row |= {"all_answers": [None] * len(samples), "all_texts": texts}
    form: Form = reading.form if "all_correct" in row else "scores"
    if "all_correct" not in row:
        row["all_scores"] = [score for _, score in judged]
    elif form == "answers":
        row["all_answers"] = [reading.scores.score(sample).get("answer") for sample in samples]
    elif form == "completions":
        row["all_answers"] = texts
    meta = {**inner(first, "metadata"), "epochs": [epoch(where, sample) for sample in samples]}
    return replace(question_of(where, row, texts=reading.texts), form=form, meta=meta)


def _cut(sample: Sample) -> int:
    """Return 1 for a completion that was cut at the token limit."""
    choices = entries(at(sample, "output/choices"))
    return int(bool(choices) and choices[0].get("stop_reason") in ("max_tokens", "model_length"))


log = InspectAi
