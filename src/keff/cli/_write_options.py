"""Options that say what is written where, each declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else there.")]
Verbose = Annotated[
    bool,
    typer.Option(
        "-v", "--verbose", rich_help_panel="Output", help="Say more: finer boundaries, further intervals."
    ),
]
PlanOut = Annotated[Path | None, typer.Option("-o", "--out", help="Write the plan (plan.json) here.")]
PageOut = Annotated[Path | None, typer.Option("--report", help="Write the report page here.")]

EvalPage = Annotated[Path | None, typer.Option("-o", "--report", help="Write the page here.")]
JoinOut = Annotated[Path, typer.Option("-o", "--out", help="The joined JSONL to write.")]
ReportOut = Annotated[Path, typer.Option("-o", "--out", help="The page to write.")]
ReplayOut = Annotated[
    Path | None,
    typer.Option("-o", "--out", help="Also write here: FILE.md the table, FILE.svg or FILE.pdf a figure."),
]
TablesOut = Annotated[
    Path | None,
    typer.Option("-o", "--out", help="A folder for one file per table.", show_default="stdout"),
]
ExportOut = Annotated[
    Path | None,
    typer.Option(
        "-o", "--out", help="The file; .parquet is Parquet, else JSONL.", show_default="named after RUN, here"
    ),
]
ReproduceOut = Annotated[
    Path, typer.Option("-o", "--out", help="Where tables, figures and numbers are written.")
]
StudyOut = Annotated[
    Path | None,
    typer.Option("-o", "--out", help="Where the report goes.", show_default="beside the runs"),
]
Figures = Annotated[bool, typer.Option(" /--no-figures", help="Draw no figures.")]
Votes = Annotated[
    bool,
    typer.Option("--votes", help="Only the voted answer of each question, and how strong the vote is."),
]
Changed = Annotated[
    bool, typer.Option("--changed", help="The scorer was changed on purpose: score with it and record it.")
]
Texts = Annotated[bool, typer.Option(" /--no-texts", help="Include the raw texts.")]
