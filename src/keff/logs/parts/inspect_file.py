"""The two containers of inspect_ai's logs, .eval (zip) and .json: header, and samples by question."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast
from zipfile import ZipInfo

from keff.errors import LogError
from keff.logs.parts.lines import loads
from keff.logs.parts.values import inner
from keff.logs.parts.zip_members import members, unpack
from keff.narrow import fields, items

# The header of a log that ended, and of one that is still being written or was cut off.
HEADERS = ("header.json", "_journal/start.json")

# The JSON form is read whole into memory, which .eval is not.
MOST_JSON = 2**30

Sample = Mapping[str, object]


def refusal(path: Path) -> str | None:
    """Return why a file is no log of inspect_ai, from its head."""
    if not path.is_file():
        return "not a file"
    with path.open("rb") as file:
        head = file.read(4096)
    if head.startswith(b"PK\x03\x04"):
        names = {info.filename for info in members(path)}
        return None if names & set(HEADERS) else "a zip file without header.json"
    if path.suffix == ".eval":
        return "not a zip file"
    head = head.removeprefix(b"\xef\xbb\xbf")
    return None if head.lstrip().startswith(b"{") and b'"eval"' in head else 'no object with "eval"'


def header(path: Path) -> Mapping[str, object]:
    """Return what the log says about itself: ``eval``, ``status``, ``error`` and more."""
    if not _is_zip(path):
        return _whole(path)
    known = {info.filename: info for info in members(path)}
    name = next((name for name in HEADERS if name in known), None)
    if name is None:
        raise LogError(f"{path}: it has no header.json")
    return _object(f"{path}: {name}", unpack(path, known[name]))


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
        yield where, [_object(f"{path}: {info.filename}", unpack(path, info)) for info in infos]


def _is_zip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"


def _whole(path: Path) -> Mapping[str, object]:
    if path.stat().st_size > MOST_JSON:
        raise LogError(f"{path}: a .json log above 1 GiB: turn it into .eval (inspect log convert)")
    return _object(str(path), path.read_bytes())


def _object(where: str, data: bytes) -> Mapping[str, object]:
    try:
        content = loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise LogError(f"{where}: not JSON ({error})") from None
    if not isinstance(content, dict):
        raise LogError(f"{where}: a JSON object is wanted")
    return cast("Mapping[str, object]", content)


def completion(sample: Sample) -> str:
    """Return the text that the model wrote last."""
    output = inner(sample, "output")
    if output.get("completion"):
        return str(output["completion"])
    first = next(iter(items(output.get("choices"))), None)
    return content(inner(first, "message").get("content"))


def prompt(value: object) -> str | None:
    """Return a sample's input: a text, or the last message of a chat."""
    if several := items(value):
        last = several[-1]
        value = fields(last).get("content") if fields(last) else last
    return None if value is None else content(value)


def content(value: object) -> str:
    """Return the text of a message, of whose parts others are left out."""
    if isinstance(value, list):
        parts = map(fields, items(cast("object", value)))
        return "".join(str(part.get("text") or "") for part in parts)
    return "" if value is None else str(value)
