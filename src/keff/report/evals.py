"""The pages of ``keff noise``, ``keff compare`` and ``keff audit``: one answer, one picture, the tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from keff.analysis.results.audit import Audit
from keff.analysis.results.comparison import Better, p_text
from keff.analysis.results.noise import Noise, PowerLine
from keff.errors import UsageError
from keff.files import write_text
from keff.records import Note
from keff.report.eval_figures import Bar, forest, power_figure
from keff.report.template import filled

# Title, headers and rows.
Table = tuple[str, Sequence[str], Sequence[Sequence[str]]]


@dataclass(frozen=True, slots=True)
class Sheet:
    """One page: its question, the answer, some numbers beside their names, a picture, tables and warnings."""

    title: str
    about: str
    answer: str
    tiles: Sequence[tuple[str, str]]
    figure: Markup
    caption: str
    tables: Sequence[Table]
    warnings: Sequence[Note]


def write_noise_page(found: Sequence[tuple[str, Noise]], file: Path) -> None:
    """Write the page of one or several scores; raises UsageError when it cannot be written."""
    _write([_noise_sheet(path, noise) for path, noise in found], file)


def write_comparison_page(pairs: Sequence[Better], warnings: Sequence[Note], file: Path) -> None:
    """Write the page of a comparison; raises UsageError when it cannot be written."""
    first = pairs[0]
    alone = len({pair.first for pair in pairs}) == 1
    sheet = Sheet(
        title="Is it better?",
        about=f"{len(pairs)} comparison{'s' * (len(pairs) > 1)} on shared questions",
        answer="; ".join(pair.line() for pair in pairs[:3]),
        tiles=[
            ("difference", first.said(first.difference.value)),
            ("p-value", p_text(first.p_adjusted).lstrip("= ")),
        ],
        figure=forest(
            [
                Bar(pair.second if alone else _names(pair), pair.difference, _by_chance(pair))
                for pair in pairs
            ],
            f"difference, minus {first.first}" if alone else "difference, second minus first",
            shares=first.scale == (0.0, 1.0),
            zero=True,
        ),
        caption="Lines are 95% intervals over questions like these. Grey is what repeats alone give on these "
        "very questions, in 19 of 20 comparisons of a model with itself.",
        tables=[_deciding(pairs)],
        warnings=warnings,
    )
    _write([sheet], file)


def _names(pair: Better) -> str:
    return f"{pair.second} / {pair.first}"


def _by_chance(pair: Better) -> float | None:
    return None if pair.noise is None else 1.96 * pair.noise


def _deciding(pairs: Sequence[Better]) -> Table:
    headers = (
        "second / first",
        "shared questions",
        "difference",
        "p" + (", Holm" if len(pairs) > 1 else ""),
        "two runs of one model differ as much in",
        "questions that would find it",
        "repeats that would find it",
        "",
    )
    rows = [
        (
            _names(pair),
            f"{pair.shared_questions:,}",
            pair.said(pair.difference.value),
            p_text(pair.p_adjusted).removeprefix("= "),
            "–" if pair.same_model_chance is None else f"{pair.same_model_chance:.1%}",
            "–" if pair.questions_needed is None else f"{pair.questions_needed:,}",
            "–" if pair.repeats_needed is None else f"{pair.repeats_needed:,}",
            pair.verdict,
        )
        for pair in pairs
    ]
    return "What would decide it", headers, rows


def write_audit_page(found: Audit, file: Path) -> None:
    """Write the page of an audit; raises UsageError when it cannot be written."""
    bars = [
        Bar("score as marked", found.score),
        Bar("score with the agreed answers", found.score_if_right),
        Bar("ceiling of every vote", found.ceiling),
    ]
    rows = [
        (
            each.id,
            each.question or "",
            each.gold_answer,
            each.agreed,
            f"{each.share:.0%}",
            f"{each.posterior:.2f}",
            each.equal_under or "",
        )
        for each in found.suspects
    ]
    headers = ("id", "question", "gold answer", "agreed", "share", "P(gold is wrong)", "equal as")
    # A log without texts, or without unequal forms, has nothing to say there.
    told = [place for place in range(len(headers)) if any(row[place] for row in rows)]
    sheet = Sheet(
        title="Which gold answers are wrong?",
        about=f"{found.n:,} questions, {len(found.branches)} branch{'es' * (len(found.branches) > 1)}",
        answer=found.line(),
        tiles=[
            ("suspect gold answers", str(len(found.suspects))),
            ("never right", f"{found.never_right:.1%}"),
        ],
        figure=forest(bars, "share of questions", shares=True, zero=False),
        caption="Lines are 95% intervals over questions like these.",
        tables=[("Suspects", [headers[i] for i in told], [tuple(row[i] for i in told) for row in rows])],
        warnings=found.warnings,
    )
    _write([sheet], file)


def _noise_sheet(path: str, found: Noise) -> Sheet:
    head, *rows = found.rows()
    repeats = sorted({line.repeats for line in found.power})
    lines = {(line.questions, line.repeats): line for line in found.power}
    power = [
        (
            f"{n:,}",
            *(_found(found, lines[n, r]) for r in repeats),
        )
        for n in sorted({line.questions for line in found.power})
    ]
    return Sheet(
        title="How far to trust this score",
        about=f"{path}: {found.n:,} questions, {found.k} repeats",
        answer=found.line(),
        tiles=[
            ("score", found.said(found.score)),
            ("one run is off by (standard deviation)", found.said(found.run_to_run_sd, points=True)),
            ("two runs differ by chance by up to", found.said(found.gap_of_two_runs, points=True)),
        ],
        figure=power_figure(found.power, shares=found.shares),
        caption="The smallest difference of two models that is found with 80% power at 5%, on new questions "
        "that both answer: by the number of questions, one line for each number of repeats.",
        tables=[
            ("The score and its noise", head, rows),
            (
                "Smallest difference found: new questions (these questions)",
                ("questions", *(f"{r} repeat{'s' * (r > 1)}" for r in repeats)),
                power,
            ),
        ],
        warnings=found.warnings,
    )


def _found(noise: Noise, line: PowerLine) -> str:
    return f"{noise.said(line.difference)} ({noise.said(line.these_questions)})"


def _write(sheets: Sequence[Sheet], file: Path) -> None:
    try:
        write_text(file, filled("evals.html.j2", sheets=sheets))
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror or error}") from None
