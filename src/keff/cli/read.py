"""Show how answers are read: by which rule, with which key.

Settles the reading before paying for more paths; draws and writes nothing, unless --judge asks a model.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from keff.cli import _console
from keff.cli import _read_options as r
from keff.cli import _sample_options as s
from keff.cli import _write_options as w
from keff.cli._json import print_json
from keff.cli._judge import JudgeOptions, show_judged
from keff.errors import UsageError
from keff.reading.open import named_part
from keff.reading.survey import Survey, survey


def command(
    path: Annotated[Path, typer.Argument(metavar="LOG|RUN", help="A recorded log or a run folder.")],
    answer_space: r.AnswerSpaceName = None,
    answer_key: r.AnswerKey = None,
    size: Annotated[int, typer.Option("--show", min=1, max=1000, help="Texts to show.")] = 20,
    format: r.Format = None,
    partial: r.Partial = False,
    judge: Annotated[
        str | None,
        typer.Option("--judge", metavar="ENGINE", help="Let a model say which answers mean the same."),
    ] = None,
    model: s.Model = None,
    base_url: s.BaseUrl = None,
    engine_option: s.EngineOptions = None,
    pairs: Annotated[
        Path | None,
        typer.Option("--pairs", metavar="FILE", help="Labelled pairs (a, b, same) to measure the judge on."),
    ] = None,
    most_calls: Annotated[int, typer.Option("--most-calls", min=1, help="Requests to the judge.")] = 10_000,
    max_tokens: Annotated[
        int | None,
        typer.Option("--max-tokens", min=1, help="Tokens of a judge's reply.", show_default="1024"),
    ] = None,
    prices: s.Prices = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Write the judged record here, as JSONL.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the choice of the texts shown.")] = 0,
    json: w.Json = False,
) -> None:
    """Read every text of LOG or RUN and show what was read."""
    opening = r.opening(format, r.reading_of(answer_space, answer_key), partial=partial)
    path, opening = named_part(path, opening)
    if judge is not None:
        wishes = JudgeOptions(
            judge, model, base_url, engine_option, pairs, most_calls, max_tokens, prices, out
        )
        show_judged(path, opening, wishes, json=json)
        return
    if pairs is not None or out is not None:
        raise UsageError("--pairs and --out go with --judge ENGINE")
    seen = survey(path, opening, size=size, seed=seed)
    if json:
        print_json(seen.to_dict())
        return
    _print(seen)


def _print(seen: Survey) -> None:
    out = _console.result_console
    what = "texts" if seen.whole else "recorded answers"
    agree = "" if seen.agreement is None else f"; two of a question agree {seen.agreement:.0%} of the time"
    out.print(
        f"{seen.read} of {seen.texts} {what} read as {seen.space}{agree}",
        markup=False,
        soft_wrap=True,
    )
    for rule, count in seen.rules.items():
        out.print(f"  {count:>8}  {rule}", markup=False, soft_wrap=True)
    table = Table(box=None, pad_edge=False)
    for header in ("question", "rule", "answer", "key", "end of the text"):
        table.add_column(header, overflow="ellipsis", no_wrap=True)
    for each in seen.sample:
        table.add_row(*map(_cell, (each.id, each.rule, each.answer, each.key, each.end)))
    out.print()
    out.print(table, markup=False)
    if seen.endings:
        out.print("\nnot read, the most frequent ends:", markup=False)
        for end, count in seen.endings.items():
            out.print(f"  {count:>8}  {end!r}", markup=False, soft_wrap=True)


def _cell(text: str | None) -> Text:
    """Return a text as one cell: what a model wrote is never taken for markup, and moves no cursor."""
    shown = "–" if text is None else " ".join(text.split())
    return Text("".join(character if character.isprintable() else "·" for character in shown))
