"""The two containers of inspect_ai's logs, .eval (zip) and .json, and which score of a sample counts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from zipfile import ZipInfo

from keff.errors import LogError
from keff.logs.parts.foreign import MOST_WORDS, configured
from keff.logs.parts.lines import MOST_JSON, head_of, members, parse, unpack
from keff.logs.parts.values import as_truth, at, inner, number_or_none, real
from keff.narrow import entries, fields, is_array, is_object, items

# The header of a log that ended, and of one that is still being written or was cut off.
HEADERS = ("header.json", "_journal/start.json")

Sample = Mapping[str, object]


def refusal(path: Path) -> str | None:
    """Return why a file is no log of inspect_ai, from its head."""
    if _is_zip(path):
        names = {info.filename for info in members(path)}
        return None if names & set(HEADERS) else "a zip file without header.json"
    if path.suffix == ".eval":
        return "not a zip file"
    head = head_of(path)[:4096]
    return None if head.startswith(b"{") and b'"eval"' in head else 'no object with "eval"'


def header(path: Path) -> Mapping[str, object]:
    """Return what the log says about itself: ``eval``, ``status``, ``error`` and more."""
    if not _is_zip(path):
        return _whole(path)
    known = {info.filename: info for info in members(path)}
    name = next((name for name in HEADERS if name in known), None)
    if name is None:
        raise LogError(f"{path}: it has no header.json")
    return parse(f"{path}: {name}", unpack(path, known[name]), first=True)


def by_question(path: Path) -> Iterator[tuple[str, list[Sample]]]:
    """Yield the samples of one question at a time, in the order of its first sample and by epoch."""
    groups = _unpacked(path) if _is_zip(path) else _listed(path)
    for where, samples in groups:
        ids = {str(sample.get("id")) for sample in samples}
        if len(ids) > 1 or ids & {"None", ""}:
            raise LogError(f"{where}: its samples name the questions {', '.join(sorted(ids))[:80]}")
        ordered = sorted(samples, key=lambda sample: epoch(where, sample))
        epochs = [epoch(where, sample) for sample in ordered]
        if len(set(epochs)) < len(epochs):
            raise LogError(f"{where}: an epoch occurs twice")
        yield where, ordered


def epoch(where: str, sample: Sample) -> int:
    """Return the number of a sample's epoch; raises LogError when it is not an integer."""
    number = sample.get("epoch", 1)
    if isinstance(number, bool) or not isinstance(number, int):
        raise LogError(f"{where}: the epoch must be an integer, not {str(number)[:40]!r}")
    return number


def _listed(path: Path) -> Iterator[tuple[str, list[Sample]]]:
    groups: dict[str, list[Sample]] = {}
    samples = _whole(path).get("samples")
    if samples and not items(samples):
        raise LogError(f"{path}: samples must be a list")
    for sample in map(fields, items(samples)):
        if not sample:
            raise LogError(f"{path}: a sample is no JSON object")
        groups.setdefault(str(sample.get("id")), []).append(sample)
    yield from ((f"{path}: sample {name}", group) for name, group in groups.items())


def _unpacked(path: Path) -> Iterator[tuple[str, list[Sample]]]:
    groups: dict[str, list[ZipInfo]] = {}
    seen: set[str] = set()
    for info in members(path):
        if not (info.filename.startswith("samples/") and info.filename.endswith(".json")):
            continue
        if info.filename in seen:
            raise LogError(f"{path}: the member {info.filename!r} occurs twice")
        seen.add(info.filename)
        groups.setdefault(info.filename.rpartition("_epoch_")[0], []).append(info)
    for name, infos in groups.items():
        where = f"{path}: {name}"
        if sum(info.file_size for info in infos) > MOST_JSON:
            raise LogError(f"{where}: its epochs claim more than 1 GiB unpacked: not read")
        yield where, [parse(f"{path}: {info.filename}", unpack(path, info), first=True) for info in infos]


def _is_zip(path: Path) -> bool:
    return head_of(path).startswith(b"PK\x03\x04")


def _whole(path: Path) -> Mapping[str, object]:
    if path.stat().st_size > MOST_JSON:
        raise LogError(f"{path}: a .json log above 1 GiB: turn it into .eval (inspect log convert)")
    return parse(str(path), path.read_bytes(), first=True)


def completion(sample: Sample) -> str:
    """Return the text that the model wrote last."""
    if said := at(sample, "output/completion"):
        return str(said)
    choices = items(at(sample, "output/choices"))
    return content(at(choices[0], "message/content")) if choices else ""


def prompt(value: object) -> str | None:
    """Return a sample's input: a text, or the last message of a chat."""
    if several := items(value):
        last = several[-1]
        value = fields(last).get("content") if fields(last) else last
    return None if value is None else content(value)


def content(value: object) -> str:
    """Return the text of a message, of whose parts others are left out."""
    if is_array(value):
        return "".join(str(part.get("text") or "") for part in entries(value))
    return "" if value is None else str(value)


# Fields that change paths, and stand in a request under the same name.
BODY = ("presence_penalty", "frequency_penalty", "top_k", "reasoning_effort", "logit_bias")


def configuration(about: Mapping[str, object], task: str | None) -> dict[str, object]:
    """Return the configuration that the header states.

    inspect names a model as ``provider/name``; the name is what a server is asked for.
    """
    spec, said = inner(about, "eval"), _generation(about)
    provider, slash, name = str(spec.get("model") or "").partition("/")
    engine: dict[str, object] = {"engine": f"{provider} (inspect_ai)" if slash else "inspect_ai"}
    engine |= {"model": name if slash else provider, "base_url": spec.get("model_base_url")}
    body = {field: said[field] for field in BODY if said.get(field) is not None}
    engine["extra_body"] = body | fields(said.get("extra_body"))
    named = task or str(spec.get("task") or "")
    return configured(engine, named, "inspect_ai", said, said.get("stop_seqs"))


def _generation(about: Mapping[str, object]) -> dict[str, object]:
    """Return the generation settings: those of the task, over which those of the call stand."""
    settings = inner(about, "plan", "config"), inner(about, "eval", "model_generate_config")
    return {name: value for part in settings for name, value in part.items() if value is not None}


def options(about: Mapping[str, object]) -> dict[str, object]:
    """Return the options of the task: the system message, of the generation settings or of a solver."""
    systems = [
        at(step, "params/template")
        for step in entries(at(about, "plan/steps"))
        if step.get("solver") == "system_message"
    ]
    system = "\n\n".join(
        text
        for text in (_generation(about).get("system_message"), *systems)
        if isinstance(text, str) and text
    )
    return {"system": system} if system else {}


def expected(spec: Mapping[str, object]) -> int:
    """Return how many samples the log should hold, 0 where the header does not say."""
    samples, epochs = (number_or_none(at(spec, place)) for place in ("dataset/samples", "config/epochs"))
    return int(samples or 0) * int(epochs or 1)


# Letters of inspect's own scorers, with the values that its ``value_to_float`` gives them: correct,
# incorrect, partial, no answer.
GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}


@dataclass(slots=True)
class Scores:
    """The chosen score of every sample.

    ``wanted`` is ``NAME`` or ``NAME.KEY`` as given (None: the log's first scorer). C is right; I, N (no
    answer) and P (partial) are not, unless a ``threshold`` says that a half is enough; true, false, 0 and 1
    are what they say. ``partial`` counts the P that were taken as wrong.
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
        if is_array(value):
            value = {str(place): part for place, part in enumerate(value)}
        if is_object(value):
            value = self._part(where, value)
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
        try:
            number = real(GRADES.get(value, as_truth(value)) if isinstance(value, str) else value)
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
