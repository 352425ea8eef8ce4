"""inspect_ai's two log containers, .eval (zip) and .json, and the choice of a sample's score."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from keff.errors import LogError
from keff.log import NoteSink
from keff.logs.parts.foreign import Canonical, UsableRows, configured, verdict
from keff.logs.parts.lines import head_of, member_names, members, parse, unpack, whole_json
from keff.logs.parts.values import at, inner, is_missing, number_or_none
from keff.narrow import Fields, Object, entries, fields, is_array, is_object, items
from keff.records import Note

# The header of a log that ended, and of one that is still being written or was cut off.
HEADERS = ("header.json", "_journal/start.json")

InspectSample = Fields


def refusal(path: Path) -> str | None:
    """Return why a file is no inspect_ai log, by its head; None when it is."""
    if _is_zip(path):
        names = {info.filename for info in members(path)}
        return None if names & set(HEADERS) else "a zip file without header.json"
    if path.suffix == ".eval":
        return "not a zip file"
    names = member_names(path)
    return (
        None if "eval" in names and {"samples", "status"} & names else 'no object with "eval" and "samples"'
    )


def header(path: Path) -> Fields:
    """Return the header of the log: ``eval``, ``status``, ``error`` and more."""
    if not _is_zip(path):
        return fields(whole_json(path))
    held = members(path)
    for name in HEADERS:
        found = [info for info in held if info.filename == name]
        if len(found) > 1:
            raise LogError(
                f"{path}: it holds {name} {len(found)} times: keep the one that is right, or log again"
            )
        if found:
            return parse(f"{path}: {name}", unpack(path, found[0]), first=True)
    raise LogError(f"{path}: it has no header.json")


def samples(path: Path) -> Iterator[tuple[str, InspectSample]]:
    """Yield (place, sample) of every sample, in file order."""
    if _is_zip(path):
        for info in members(path):
            if info.filename.startswith("samples/") and info.filename.endswith(".json"):
                where = f"{path}: {info.filename}"
                yield where, parse(where, unpack(path, info), first=True)
        return
    listed = fields(whole_json(path)).get("samples")
    if listed and not items(listed):
        raise LogError(f"{path}: samples must be a list")
    for number, sample in enumerate(items(listed), 1):
        if not is_object(sample):
            raise LogError(f"{path}: a sample is no JSON object")
        yield f"{path}: sample {number}", sample


def _is_zip(path: Path) -> bool:
    return head_of(path).startswith(b"PK\x03\x04")


def completion(sample: InspectSample) -> str:
    """Return the model's last text."""
    if said := at(sample, "output/completion"):
        return str(said)
    choices = items(at(sample, "output/choices"))
    return content(at(choices[0], "message/content")) if choices else ""


def prompt(value: object) -> str | None:
    """Return a sample's input: a text, or a chat's last message."""
    if several := items(value):
        last = several[-1]
        value = fields(last).get("content") if fields(last) else last
    return None if value is None else content(value)


def content(value: object) -> str:
    """Return the text parts of a message."""
    if is_array(value):
        return "".join(str(part.get("text") or "") for part in entries(value))
    return "" if value is None else str(value)


# Fields that change paths, and stand in a request under the same name.
BODY = ("presence_penalty", "frequency_penalty", "top_k", "reasoning_effort", "logit_bias")


def configuration(about: Fields, task: str | None) -> Object:
    """Return the configuration stated in the header.

    inspect names a model as ``provider/name``; the name is what a server is asked for.
    """
    spec, said = inner(about, "eval"), _generation(about)
    provider, slash, name = str(spec.get("model") or "").partition("/")
    engine: Object = {"engine": f"{provider} (inspect_ai)" if slash else "inspect_ai"}
    engine |= {"model": name if slash else provider, "base_url": spec.get("model_base_url")}
    body = {field: said[field] for field in BODY if said.get(field) is not None}
    engine["extra_body"] = body | fields(said.get("extra_body"))
    named = task or str(spec.get("task") or "")
    return configured(engine, named, "inspect_ai", said, said.get("stop_seqs"))


def _generation(about: Fields) -> Object:
    """Return the generation settings: the task's, overridden by the call's."""
    settings = inner(about, "plan", "config"), inner(about, "eval", "model_generate_config")
    return {name: value for part in settings for name, value in part.items() if value is not None}


def options(about: Fields) -> Object:
    """Return the task's options: the system message, from generation settings or a solver."""
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


def expected(spec: Fields) -> int:
    """Return how many samples the log should hold; 0 if unstated."""
    samples, epochs = (number_or_none(at(spec, place)) for place in ("dataset/samples", "config/epochs"))
    return int(samples or 0) * int(epochs or 1)


# Letters of inspect's own scorers, with the values that its ``value_to_float`` gives them: correct,
# incorrect, partial, no answer.
GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}


@dataclass(slots=True)
class Scores:
    """The chosen score of every sample, and counts of the rest.

    ``wanted`` is ``NAME`` or ``NAME.KEY`` as given (None: the log's first scorer). C is right; I, N (no
    answer) and P (partial) are not, unless a ``threshold`` says that a half is enough; true, false, 0 and 1
    are what they say. ``partial`` counts the P that were taken as wrong.
    """

    wanted: str | None
    threshold: float | None
    names: dict[str, None] = field(default_factory=dict[str, None])
    partial: int = 0

    @property
    def name(self) -> str:
        """The scorer in use; "" while unknown."""
        if self.wanted is None:
            return next(iter(self.names), "")
        return self.wanted if self.wanted in self.names else self.wanted.rpartition(".")[0]

    @property
    def key(self) -> str | None:
        """The requested part of a score with several parts."""
        if self.wanted is None or self.wanted == self.name:
            return None
        return self.wanted.removeprefix(f"{self.name}.")

    def check(self) -> None:
        """Raise LogError where no sample has the requested scorer."""
        if self.wanted is not None and self.name not in self.names:
            raise LogError(f"scorer={self.wanted}: the scorers are {', '.join(self.names) or 'none'}")

    def score(self, sample: InspectSample) -> Fields:
        """Return a sample's whole score by the scorer in use."""
        given = inner(sample, "scores")
        self.names.update(dict.fromkeys(given))
        return inner(given, self.name)

    def values(self, where: str, score: Fields) -> Mapping[str, object]:
        """Return the values of a sample by who gave them: those of a list, or one whose giver has no name."""
        given = score.get("value")
        if self.key is None and is_array(given) and len(given) > 1:
            return {f"{self.name}.{place}": value for place, value in enumerate(given)}
        return {"": self.value(where, score)}

    def value(self, where: str, score: Fields) -> object:
        """Return the value of the score in use, or None."""
        value: object = score.get("value")
        if is_array(value):
            value = {str(place): part for place, part in enumerate(value)}
        return self._part(where, value) if is_object(value) else value

    def _part(self, where: str, parts: Object) -> object:
        if self.key is None and len(parts) == 1:
            return next(iter(parts.values()))
        if self.key is None or self.key not in parts:
            named = ", ".join(f"{self.name}.{key}" for key in parts)
            raise LogError(
                f"{where}: the scorer {self.name} gives several scores: name one with scorer=NAME, of {named}"
            )
        return parts[self.key]

    def keep(self, kept: UsableRows, where: str, row: Canonical, error: object, value: object) -> None:
        """Add a sample with its verdict; count it instead if it failed or has no score."""
        if error or is_missing(value):
            kept.left_out["ended in an error" if error else "has no score"] += 1
            return
        grade = GRADES.get(value, value) if isinstance(value, str) else value
        found = verdict(f"{where}: the scorer {self.name}", grade, self.threshold)
        if value == "P" and self.threshold is None:
            self.partial += 1
            found = {**found, "correct": 0}
        kept.add(where, {**row, **found}, [where, row])

    def say(self, format: str, tell: NoteSink) -> None:
        """Report grades counted as wrong, and scorers not used."""
        if self.partial:
            text = f"{self.partial} partial grades (P) count as wrong"
            tell(Note("partial_grades", f"{text}: --format {format}:threshold=0.5 takes them"))
        others = ", ".join(name for name in self.names if name != self.name)
        if others and self.wanted is None:
            text = f"the first scorer, {self.name}, counts"
            tell(Note("other_scorers", f"{text}: --format {format}:scorer=NAME takes another ({others})"))
