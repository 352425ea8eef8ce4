"""Align records of several branches by question, in one.

Questions are matched by id; what is left out is said.
"""

from __future__ import annotations

import json as jsons

from keff.cli import _console
from keff.cli import _options as o
from keff.cli._console import print_json
from keff.cli._groups import LogOptions
from keff.cli._options import grouped
from keff.files import whole
from keff.reading.join import align, joined_rows
from keff.reading.open import open_record


@grouped(without=("answer_key", "branches"))
def command(paths: o.Paths, out: o.JoinOut, *, log: LogOptions, json: o.Json = False) -> None:
    """Join the records."""
    opening = log.opening()
    group = align([open_record(path, opening) for path in paths])
    for note in group.notes:
        _console.warn(note.message)
    with whole(out) as draft, draft.open("w", encoding="utf-8") as file:
        file.writelines(jsons.dumps(row, ensure_ascii=False) + "\n" for row in joined_rows(group))
    if json:
        paths_of = {branch.name: branch.votes.k for branch in group.branches}
        notes = [{"code": note.code, "message": note.message} for note in group.notes]
        print_json({"out": str(out), "n": group.n, "branches": paths_of, "warnings": notes})
        return
    shown = ", ".join(f"{branch.name} ({branch.votes.k} paths)" for branch in group.branches)
    _console.note(f"{out}: {group.n} questions, {shown}")
