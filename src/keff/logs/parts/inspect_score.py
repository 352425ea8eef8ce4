"""Which score of an inspect_ai sample counts, and whether it says that the path is right."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import cast

from keff.errors import LogError
from keff.logs.parts.inspect_file import Sample, completion
from keff.logs.parts.values import inner, real

# The beginning of a task's version where another tool asked the questions.
RECORDED = "recorded by "

SAMPLING = {
    "temperature": "temperature",
    "top_p": "top_p",
    "max_tokens": "max_tokens",
    "seed": "seed",
    "reasoning_tokens": "thinking",
}
# Fields that change paths, and stand in a request under the same name.
BODY = ("presence_penalty", "frequency_penalty", "top_k", "reasoning_effort", "logit_bias")


def configuration(about: Mapping[str, object], task: str | None) -> dict[str, object]:
    """Return the configuration as a run's manifest would hold it; what the header does not state is absent.

    inspect names a model as ``provider/name``; the name is what a server is asked for.
    """
    spec, said = inner(about, "eval"), _generation(about)
    provider, slash, name = str(spec.get("model") or "").partition("/")
    engine: dict[str, object] = {"engine": f"{provider} (inspect_ai)" if slash else "inspect_ai"}
    engine |= {"model": name if slash else provider, "base_url": spec.get("model_base_url")}
    body = {field: said[field] for field in BODY if said.get(field) is not None}
    extra = said.get("extra_body")
    body |= cast("dict[str, object]", extra) if isinstance(extra, dict) else {}
    sampling = {ours: said[theirs] for theirs, ours in SAMPLING.items() if said.get(theirs) is not None}
    stop = said.get("stop_seqs")
    return {
        "engine": {field: value for field, value in engine.items() if value}
        | ({"extra_body": body} if body else {}),
        "task": {"name": task or str(spec.get("task") or ""), "version": f"{RECORDED}inspect_ai"},
        "sampling": sampling | ({"stop": stop} if stop else {}),
        "templates": [0],
        "prompt": "",
    }


def _generation(about: Mapping[str, object]) -> dict[str, object]:
    """Return the generation settings: those of the task, over which those of the call stand."""
    settings = inner(about, "plan", "config"), inner(about, "eval", "model_generate_config")
    return {name: value for part in settings for name, value in part.items() if value is not None}


def options(about: Mapping[str, object]) -> dict[str, object]:
    """Return the options of the task: the system message, of the generation settings or of a solver."""
    steps: object = inner(about, "plan").get("steps")
    systems = [
        inner(cast("Mapping[str, object]", step), "params").get("template")
        for step in (cast("list[object]", steps) if isinstance(steps, list) else [])
        if isinstance(step, Mapping) and cast("Mapping[str, object]", step).get("solver") == "system_message"
    ]
    system = "\n\n".join(
        text
        for text in (_generation(about).get("system_message"), *systems)
        if isinstance(text, str) and text
    )
    return {"system": system} if system else {}


def expected(spec: Mapping[str, object]) -> int:
    """Return how many samples the log should hold, 0 where the header does not say."""
    try:
        samples = int(real(inner(spec, "dataset").get("samples") or 0))
        return samples * int(real(inner(spec, "config").get("epochs") or 1))
    except (TypeError, ValueError, OverflowError):
        return 0


GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
WORDS = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0, "correct": 1.0, "incorrect": 0.0}


@dataclass(slots=True)
class Scores:
    """The chosen score of every sample.

    ``wanted`` is ``NAME`` or ``NAME.KEY`` as given (None: the log's first scorer). C is right; I, N (no
    answer)
    and P (partial) are not, unless a ``threshold`` says that a half is enough; true, false, 0 and 1 are what
    they say. ``partial`` counts the P that were taken as wrong.
    """

    wanted: str | None
    threshold: float | None
    names: dict[str, None] = field(default_factory=dict[str, None])
    partial: int = 0

    def learn(self, samples: Iterable[Sample]) -> None:
        """Take note of the scorers that samples have."""
        for sample in samples:
            self.names.update(dict.fromkeys(inner(sample, "scores")))

    @property
    def name(self) -> str:
        """The scorer that counts; raises LogError when the one that was asked for is not there."""
        if self.wanted is None:
            return next(iter(self.names), "")
        name = self.wanted if self.wanted in self.names else self.wanted.rpartition(".")[0]
        if name not in self.names:
            raise LogError(f"scorer={self.wanted}: the scorers are {', '.join(self.names) or 'none'}")
        return name

    @property
    def key(self) -> str | None:
        """The part of a score with several parts that was asked for."""
        if self.wanted is None or self.wanted == self.name:
            return None
        return self.wanted.removeprefix(f"{self.name}.")

    def score(self, sample: Sample) -> Mapping[str, object]:
        """Return the whole score of the scorer that counts."""
        return inner(inner(sample, "scores"), self.name)

    def value(self, where: str, sample: Sample) -> object:
        """Return the value that counts, None when the sample was not scored."""
        value: object = self.score(sample).get("value")
        if isinstance(value, list):
            value = {str(place): part for place, part in enumerate(cast("list[object]", value))}
        if isinstance(value, dict):
            value = self._part(where, cast("dict[str, object]", value))
        return None if isinstance(value, float) and math.isnan(value) else value

    def _part(self, where: str, parts: dict[str, object]) -> object:
        if self.key is None and len(parts) == 1:
            return next(iter(parts.values()))
        if self.key is None or self.key not in parts:
            named = ", ".join(f"{self.name}.{key}" for key in parts)
            raise LogError(
                f"{where}: the scorer {self.name} gives several scores: name one with scorer=NAME, of {named}"
            )
        return parts[self.key]

    def judged(self, where: str, value: object) -> tuple[int | None, float]:
        """Return whether a value says right, None for a number that needs a threshold; and the number."""
        number = self._number(where, value)
        if self.threshold is not None:
            return int(number >= self.threshold), number
        if value == "P":
            self.partial += 1
            return 0, number
        return int(number) if number in (0.0, 1.0) else None, number

    def _number(self, where: str, value: object) -> float:
        number = value
        if isinstance(value, str):
            number = GRADES.get(value, WORDS.get(value.strip().lower(), value))
        try:
            number = real(number)
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            raise LogError(
                f"{where}: the scorer {self.name} gave {str(value)[:40]!r}, which is neither a grade "
                "nor a number"
            )
        return number


def is_whole(sample: Sample, score: Mapping[str, object]) -> bool | None:
    """Return whether a score's answer is the model's whole completion; None where that cannot be told.

    ``includes`` and the model graded scorers put it there. A completion of a few words may be the answer
    itself.
    """
    answer, text = score.get("answer"), completion(sample).strip()
    if not isinstance(answer, str) or not answer.strip() or not text:
        return None
    # ``includes`` folds the case of what it keeps.
    if answer.strip().casefold() != text.casefold():
        return False
    return True if len(text.split()) > MOST_WORDS or "\n" in text else None


MOST_WORDS = 8
