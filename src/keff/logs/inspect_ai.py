"""Logs of inspect_ai, .eval or .json: epochs are the repeats; read without inspect installed."""

from __future__ import annotations

from pathlib import Path

from keff.log import LogInfo, NoteSink
from keff.logs.parts.foreign import Canonical, PathReader, ScoreOptions, UsableRows
from keff.logs.parts.inspect_log import (
    InspectSample,
    Scores,
    completion,
    configuration,
    expected,
    header,
    options,
    prompt,
    refusal,
    samples,
)
from keff.logs.parts.values import at, inner, known_task, number_or_none, optional_text
from keff.narrow import Fields, entries
from keff.records import Note


class InspectAi(ScoreOptions, PathReader):
    """Reader of inspect_ai's logs.

    The answer and the score are those of one scorer: ``scorer``, else the first. Whether a score says right
    is in ``Scores``. A list of scores is one of several graders, each a slot with a path of its own. Where
    scorers put the whole completion into the answer, or name no answer at all, it is read as a completion.
    Samples that ended in an error or were not scored are left out and counted. A ``.json`` log may have up to
    1 GiB.
    """

    name = "inspect_ai"
    refuses = staticmethod(refusal)

    def info(self, path: Path) -> LogInfo:
        """Return the log's metadata."""
        about = header(path)
        spec = inner(about, "eval")
        task = known_task(str(spec.get("task", "")))
        return LogInfo(
            task=task,
            model=optional_text(spec.get("model")),
            config=configuration(about, task),
            options=options(about),
            stopped=bool(inner(about, "results", "early_stopping")),
        )

    def collect(self, kept: UsableRows, path: Path, tell: NoteSink) -> None:
        """Collect the samples that have a score."""
        scores, held = Scores(self.scorer, self.threshold), 0
        for where, sample in samples(path):
            held += 1
            error, score = sample.get("error"), scores.score(sample)
            row = _canonical(sample, score)
            for giver, value in ({"": None} if error else scores.values(where, score)).items():
                scores.keep(kept, where, {**row, "slot": giver} if giver else row, error, value)
        scores.check()
        about = header(path)
        status = str(about.get("status") or "started")
        if status != "success":
            error = str(at(about, "error/message") or "").split("\n")[0][:120]
            size = expected(inner(about, "eval"))
            of = f" of {size}" if size else ""
            why = f" ({error})" if error else ""
            tell(Note("log_status", f"the log ended with status {status}{why}: it holds {held}{of} samples"))
        scores.say(self.name, tell)


def _canonical(sample: InspectSample, score: Fields) -> Canonical:
    text, answer = completion(sample), score.get("answer")
    # ``includes`` and the model graded scorers keep the whole completion, the first with its case folded.
    whole = isinstance(answer, str) and answer.strip().casefold() == text.strip().casefold()
    choices = entries(at(sample, "output/choices"))
    return {
        "id": sample.get("id"),
        "path": sample.get("epoch", 1),
        "answer": text if whole else answer,
        "text": text,
        "gold_answer": sample.get("target"),
        "question": prompt(sample.get("input")),
        "tokens": at(sample, "output/usage/output_tokens"),
        "prompt_tokens": at(sample, "output/usage/input_tokens"),
        "seconds": number_or_none(at(sample, "output/time")),
        "truncated": int(bool(choices) and choices[0].get("stop_reason") in ("max_tokens", "model_length")),
    }


log = InspectAi
