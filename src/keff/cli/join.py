"""Align records of several branches by question, in one.

Questions are matched by id; what is left out is said.
"""

from __future__ import annotations

import json as jsons

from keff.cli import _options as o
from keff.cli._console import note, print_json, warn_all
from keff.cli._groups import LogOptions
from keff.files import whole
from keff.reading.join import align, joined_rows
from keff.reading.open import open_record


@o.grouped(without=("answer_key", "branches"))
def command(paths: o.Paths, out: o.JoinOut, *, log: LogOptions, json: o.Json = False) -> None:
    """Join the records."""
    opening = log.opening()
    group = align([open_record(path, opening) for path in paths])
    warn_all(group.notes)
    with whole(out) as draft, draft.open("w", encoding="utf-8") as file:
        file.writelines(jsons.dumps(row, ensure_ascii=False) + "\n" for row in joined_rows(group))
    if json:
        paths_of = {branch.name: branch.votes.k for branch in group.branches}
        print_json({"out": str(out), "n": group.n, "branches": paths_of, "warnings": group.notes})
        return
    shown = ", ".join(f"{branch.name} ({branch.votes.k} paths)" for branch in group.branches)
    note(f"{out}: {group.n} questions, {shown}")
