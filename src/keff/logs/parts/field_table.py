"""Readers that are a table of fields: where a tool's log keeps what keff reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TypeAlias

from keff.errors import LogError
from keff.log import LogInfo, NoteSink, ignore
from keff.logs.parts.foreign import Canonical, PathReader, UsableRows, verdict
from keff.logs.parts.lines import Row, first_object, member_names, objects, whole_json
from keff.logs.parts.values import (
    as_truth,
    at,
    inner,
    is_missing,
    known_task,
    number_or_none,
    optional_text,
    thousandth,
)
from keff.narrow import Fields, Object, entries, fields, items, only
from keff.records import frozen

# Where a value stands in a row: "usage/output_tokens", or several places, of which the first that holds
# something counts; or a function of the row.
Source: TypeAlias = str | tuple[str, ...] | Callable[[Row], object]


def value_of(row: Row, source: Source) -> object:
    """Return what a row holds at a source; None where there is nothing."""
    if callable(source):
        return source(row)
    return at(row, *([source] if isinstance(source, str) else source))


def number_at(*places: str) -> Source:
    """Return the source of a number; other values are none."""
    return lambda row: number_or_none(at(row, *places))


def milliseconds_at(*places: str) -> Source:
    """Return the source of seconds where a row holds milliseconds."""
    return lambda row: thousandth(at(row, *places))


@frozen
class FieldTable:
    """Where a tool's log keeps what keff reads.

    A log is JSON lines or a JSON array, known by ``signs``, which the first row has; or one object, known by
    its ``names``, with its rows at ``rows``; or a folder where each of ``files`` (a pattern) with the signs
    is a row. A row is one path, or lists several at ``paths``: then each entry is seen in the list's place.

    ``fields`` are the words of one path (id, answer, text, gold_answer, ...). The id is needed: paths are
    left out where it is made of an input that they lack. ``of_call`` are the words of a whole row: they count
    where it has one path. ``scores`` are verdicts by name: the option
    ``scorer`` names one, else it is ``main``, the only one, or the only one that is true or false.
    ``left_out`` maps reasons to what a row holds that is left out for them; ``steps`` is what a row holds
    that is no path at all. ``own`` tells a path from all others (None: by all that the row holds). ``task``
    and ``model`` are of the first row, or of the object.
    """

    fields: Mapping[str, Source]
    signs: Sequence[str | tuple[str, ...]] = ()
    names: Sequence[str] = ()
    rows: str | tuple[str, ...] = ()
    files: str = ""
    paths: str = ""
    of_call: Mapping[str, Source] = field(default_factory=dict[str, Source])
    scores: Source = ()
    main: Source = ()
    left_out: Mapping[str, Source] = field(default_factory=dict[str, Source])
    steps: Source = ()
    own: Source | None = None
    task: Source = ()
    model: Source = ()


class FieldReader(PathReader):
    """Base class of readers that are a table of fields.

    Rows that lack something are made whole in ``rows_in``: then the table says where it stands.
    """

    name: str
    table: FieldTable
    scorer: str | None = None
    threshold: float | None = None

    def refuses(self, path: Path) -> str | None:
        """Return why this is not a file of the format, or None when it is."""
        if path.is_dir():
            row = next(self.rows_in(path), None) if self.table.files else None
            return None if row else "not a file"
        if self.is_whole(path):
            return None
        if self.table.files or not self.table.signs:
            return f"no object with {' and '.join(self.table.names)}" if self.table.names else "not a folder"
        row = first_object(path)
        if isinstance(row, str):
            return row
        return None if self.has_signs(row) else f"the first row lacks {self._lacking(row)}"

    def info(self, path: Path) -> LogInfo:
        """Return the log's metadata: its task and model, as the whole object or the first row says."""
        if not self.table.task and not self.table.model:
            return LogInfo()
        first = next((row for _, row in self.rows_in(path)), Row())
        head = first | (fields(whole_json(path)) if self.is_whole(path) else {})
        task, model = (optional_text(value_of(head, each)) for each in (self.table.task, self.table.model))
        return LogInfo(known_task(task) if task else None, model=model)

    def collect(self, kept: UsableRows, path: Path, tell: NoteSink) -> None:
        """Collect the paths that are not left out."""
        names = dict[str, None]()
        for where, row in self.rows_in(path, tell):
            if value_of(row, self.table.steps):
                continue
            members = self.paths_in(row)
            for place, one in enumerate(members or [row]):
                reasons = [reason for reason, source in self.table.left_out.items() if value_of(one, source)]
                if not members:
                    reasons.append("has no output")
                elif callable(self.table.fields["id"]) and is_missing(value_of(one, self.table.fields["id"])):
                    reasons.append("has no input")
                if reason := next(iter(reasons), None):
                    kept.left_out[reason] += 1
                    continue
                scores = self.scores_in(one)
                names |= dict.fromkeys(scores)
                own = one if self.table.own is None else value_of(one, self.table.own)
                row = self._canonical(where, one, scores, alone=len(members) == 1)
                kept.add(where, row, [one if own is None else own, place], named=own is not None)
        if self.scorer is not None and self.scorer not in names:
            raise LogError(f"{path}: {self._ask(names, f'no score is called {self.scorer}')}")

    def rows_in(self, path: Path, tell: NoteSink = ignore) -> Iterator[tuple[str, Row]]:
        """Yield (place, row) of all rows of a file or folder."""
        if path.is_dir():
            for file in sorted(path.glob(self.table.files)):
                row = self.row_of(file, fields(whole_json(file)))
                if self.has_signs(row):
                    yield str(file), row
        elif self.is_whole(path):
            rows = entries(value_of(fields(whole_json(path)), self.table.rows))
            if not rows:
                raise LogError(f"{path}: {self.table.rows} holds no rows")
            for number, row in enumerate(rows, 1):
                yield f"{path}: row {number}", row
        else:
            yield from objects(path, tell)

    def row_of(self, file: Path, content: Row) -> Row:
        """Return the row that a file of a folder is."""
        del file
        return content

    def paths_in(self, row: Row) -> Sequence[Row]:
        """Return a row for each path of a row."""
        if not self.table.paths:
            return [row]
        return [_with(row, self.table.paths.split("/"), each) for each in items(at(row, self.table.paths))]

    def is_whole(self, path: Path) -> bool:
        """Return whether a file is one object that holds the rows."""
        return bool(self.table.names) and path.is_file() and set(self.table.names) <= member_names(path)

    def has_signs(self, row: Row) -> bool:
        """Return whether a row is of this format."""
        return not self._lacking(row)

    def _lacking(self, row: Row) -> str:
        lacking = (sign for sign in self.table.signs if sign not in row and value_of(row, sign) is None)
        return " and ".join(map(str, lacking))

    def scores_in(self, row: Row) -> Fields:
        """Return a path's verdicts by name."""
        return fields(value_of(row, self.table.scores))

    def _canonical(self, where: str, row: Row, scores: Fields, *, alone: bool) -> Canonical:
        sources = {**self.table.fields, **(self.table.of_call if alone else {})}
        canonical = {word: value_of(row, source) for word, source in sources.items()}
        if is_missing(canonical["id"]):
            raise LogError(f"{where}: it has no id ({self.table.fields['id']})")
        return {**canonical, **self._verdict(where, row, scores)}

    def _verdict(self, where: str, row: Row, scores: Fields) -> Canonical:
        name = self.scorer or optional_text(value_of(row, self.table.main))
        if self.scorer is None and name not in scores:
            usable = [each for each, value in scores.items() if _is_truth(value) or _is_number(value)]
            name = only(usable) or only([each for each in usable if _is_truth(scores[each])])
            if usable and name is None:
                raise LogError(f"{where}: {self._ask(usable, 'it has several scores')}")
        return verdict(f"{where}: the score {name}", scores.get(name or ""), self.threshold)

    def _ask(self, names: Iterable[str], why: str) -> str:
        known = ", ".join(sorted(names)) or "none"
        return f"{why}: name one with --format {self.name}:scorer=NAME, of {known}"


def _with(row: Row, place: Sequence[str], value: object) -> Object:
    """Return a row with another value at a place."""
    name, *below = place
    return {**row, name: _with(inner(row, name), below, value) if below else value}


def _is_truth(value: object) -> bool:
    return isinstance(value, bool) or as_truth(value) is not value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not is_missing(value)
