"""Show how keff reads each answer, and by which rule.

Look here before you pay for more paths. keff draws and writes nothing, unless --judge asks a model.

Example: keff read answers.jsonl --answer-space numeric
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from keff import plugins
from keff.cli import _options as o
from keff.cli import _sample_options as s
from keff.cli._console import console, print_json, say
from keff.cli._groups import LogOptions
from keff.cli._sample_options import parse_pairs
from keff.errors import UsageError
from keff.log import find_log
from keff.reading.judge import (
    MAX_TOKENS,
    JudgedRecord,
    Reliability,
    cache_of,
    judge_record,
    read_pairs,
)
from keff.reading.open import Opening, named_part, open_record
from keff.reading.survey import Survey, survey
from keff.records import frozen, terminal_width
from keff.sampling.cost import price_of
from keff.sampling.price_table import read_prices

if TYPE_CHECKING:
    from keff.engine import Engine

DEFAULT_SPACE = "text"


@frozen
class JudgeOptions:
    """The options of the judge, each field one of the command line."""

    judge: Annotated[
        str | None,
        typer.Option("--judge", metavar="ENGINE", help="Let a model say which answers mean the same."),
    ] = None
    model: s.Model = None
    base_url: s.BaseUrl = None
    engine_option: s.EngineOptions = None
    pairs: Annotated[
        Path | None,
        typer.Option("--pairs", metavar="FILE", help="Labelled pairs (a, b, same) to measure the judge on."),
    ] = None
    most_calls: Annotated[int, typer.Option("--most-calls", min=1, help="Requests to the judge.")] = 10_000
    max_tokens: Annotated[
        int | None,
        typer.Option("--max-tokens", min=1, help="Tokens of a judge's reply.", show_default="1024"),
    ] = None
    prices: o.Prices = None
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Write the judged record here, as JSONL.")
    ] = None

    def make(self) -> Engine:
        """Return the engine that judges."""
        given = {"model": self.model, "base_url": self.base_url}
        given |= parse_pairs(self.engine_option, "--engine-option")
        options = {name: value for name, value in given.items() if value is not None}
        return plugins.load("engine", str(self.judge), **options)


def show_judged(path: Path, opening: Opening, wishes: JudgeOptions, *, json: bool) -> None:
    """Judge a record, write it where asked, and print what came of it."""
    pairs = None if wishes.pairs is None else read_pairs(wishes.pairs)
    price = None
    if wishes.prices is not None:
        price = price_of(wishes.model, read_prices(wishes.prices))
    record = open_record(path, replace(opening, answer_space=_space(path, opening)))
    if record.ballot.votes.answers is None:
        raise UsageError(f"{record.path}: it holds correctness only, and no answers to judge")
    engine = wishes.make()
    judging = judge_record(
        record,
        engine,
        cache_of(path),
        pairs=pairs,
        out=wishes.out,
        most_calls=wishes.most_calls,
        max_tokens=wishes.max_tokens or MAX_TOKENS,
    )
    judged = asyncio.run(judging)
    dollars = None if price is None else judged.spent.usage.dollars(price)
    if json:
        print_json({**judged.to_dict(), "dollars": dollars})
        return
    for line in lines(judged, dollars):
        say(line)
    if wishes.out is not None:
        say(f"written: keff analyze {wishes.out}")


def _space(path: Path, opening: Opening) -> str | None:
    """Return the requested answer space; None to keep the record's own, else short text."""
    info = find_log(path, opening.format, opening.options).info(path)
    own = info.space is not None or (info.task is not None and plugins.has("task", info.task))
    return opening.answer_space or (None if own else DEFAULT_SPACE)


def lines(judged: JudgedRecord, dollars: float | None) -> list[str]:
    """Return the sentences on a judged record."""
    before, after = ("–" if share is None else f"{share:.0%}" for share in judged.agreement)
    spent = judged.spent
    cost = "" if dollars is None else f", ${dollars:.4f}"
    said = [
        f"{judged.distinct} different answers to {judged.questions} questions have {judged.clusters} "
        f"meanings. Two answers to a question agree {after} of the time ({before} as written)",
        f"The judge saw {judged.pairs} pairs, each in both orders. It changed its mind with the order on "
        f"{judged.flips}, which count as different, and gave no clear reply on {judged.unread}",
        f"{spent.calls} requests ({spent.cached} verdicts from the cache), {spent.prompt_tokens} prompt and "
        f"{spent.tokens} output tokens{cost}",
    ]
    if judged.reliability is None:
        said.append(
            "keff does not know how often the judge errs. To measure it, give labelled pairs: --pairs FILE "
            "(columns a, b, same)"
        )
    else:
        said.append(_error(judged.reliability, judged.labels))
    return said


def _error(measured: Reliability, labels: str) -> str:
    parts = [f"the judge errs on {measured.error.percent()} of {measured.pairs} labelled pairs ({labels})"]
    if measured.joined is not None:
        parts.append(f"calls different answers the same: {measured.joined.percent()}")
    if measured.split is not None:
        parts.append(f"calls equal answers different: {measured.split.percent()}")
    return "; ".join(parts)


@o.grouped
def command(
    path: Annotated[Path, typer.Argument(metavar="LOG|RUN", help="A recorded log or a run folder.")],
    size: Annotated[int, typer.Option("--show", min=1, max=1000, help="Texts to show.")] = 20,
    *,
    log: LogOptions,
    trim: o.Trim = None,
    branches: o.BranchNames = None,
    judging: JudgeOptions,
    json: o.Json = False,
) -> None:
    """Read every text of LOG or RUN and show what was read."""
    path, opening = named_part(path, log.opening(texts=judging.out is not None, trim=trim, branches=branches))
    if judging.judge is not None:
        show_judged(path, opening, judging, json=json)
        return
    if judging.pairs is not None or judging.out is not None:
        raise UsageError("--pairs and --out need --judge ENGINE")
    seen = survey(path, opening, size=size)
    print_json(seen.to_dict()) if json else _print(seen)


def _print(seen: Survey) -> None:
    what = "texts" if seen.whole else "recorded answers"
    agree = (
        ""
        if seen.agreement is None
        else f" Two answers to a question agree {seen.agreement:.0%} of the time."
    )
    say(f"keff finds an answer in {seen.read} of {seen.texts} {what} (answer space {seen.space}).{agree}")
    for rule, count in seen.rules.items():
        say(f"  {count:>8}  {rule}")
    for mark, count in seen.marks.items():
        say(
            f"{count} texts begin with {mark!r}. If it opens thinking, keff does not know it and reads what "
            "follows like an answer. Cut it from the texts first."
        )
    table = Table(box=None, pad_edge=False, expand=True)
    # A text gives way to what was read from it, down to a third of the line.
    for header in ("question", "rule", "answer", "key"):
        table.add_column(header, overflow="ellipsis", no_wrap=True, max_width=terminal_width() // 6)
    table.add_column("end of the text", overflow="ellipsis", no_wrap=True, ratio=1)
    for each in seen.sample:
        table.add_row(*map(_cell, (each.id, each.rule, each.answer, each.key, each.end)))
    say("")
    console().print(table)
    if seen.endings:
        say("\nNo answer found; the most frequent ends of such texts:")
        for end, count in seen.endings.items():
            say(f"  {count:>8}  {end!r}")


def _cell(text: str | None) -> Text:
    """Return a text as one table cell, with markup and control characters disarmed."""
    shown = "–" if text is None else " ".join(text.split())
    return Text("".join(character if character.isprintable() else "·" for character in shown))
