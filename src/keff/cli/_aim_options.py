"""Options that say what is estimated and recommended, each declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from keff.policy.spec import MAX_CAP

MOST_PAID = f"the most paths you would pay for per question (to {MAX_CAP})."


def _cap(meaning: str, *, shown: bool | str = True) -> Any:
    return typer.Option("--cap", min=1, help=f"K_max: {meaning}", show_default=shown)


MONEY = "Money and time"
COMPUTED = "How it is computed"
BRANCHES = "Several branches"
OTHER_AIMS = "Other aims than --retain"
AnalysisSeed = Annotated[
    int,
    typer.Option(
        "--seed",
        help="Seed of what the analysis draws at random: resamples, orders, folds.",
        rich_help_panel=COMPUTED,
    ),
]
Replicates = Annotated[
    int, typer.Option("--replicates", min=100, help="Bootstrap resamples.", rich_help_panel=COMPUTED)
]
Epsilon = Annotated[
    float,
    typer.Option("--epsilon", help="The paper's marginal-gain threshold for K*.", rich_help_panel=COMPUTED),
]
Cap = Annotated[int, _cap(MOST_PAID)]
ReplayCap = Annotated[
    int | None,
    _cap("compare with the plurality of this many paths.", shown="32, or as many as are recorded"),
]
DecisionCap = Annotated[int | None, _cap(MOST_PAID, shown="what is drawn today; curves to 32")]
Now = Annotated[
    str | None,
    typer.Option(
        "--now",
        metavar="K|POLICY",
        help="What is drawn today: savings are against it. A rule without its cap gets the recorded K.",
        show_default="the recorded paths, at most 64",
    ),
]
PriceTable = Annotated[
    Path | None,
    typer.Option(
        "--prices",
        help='TOML price table: ["model"] with prompt, output per million tokens, or path, or second.',
        rich_help_panel=MONEY,
    ),
]
Volume = Annotated[
    int | None,
    typer.Option(
        "--volume",
        min=1,
        help="Questions to come: what they will cost (with --prices).",
        rich_help_panel=MONEY,
    ),
]
PaceText = Annotated[
    str | None,
    typer.Option(
        "--pace",
        metavar="FIRST+RATE",
        help="Seconds of a path where none are recorded: to the first token, and tokens per second (0.5+60).",
        rich_help_panel=MONEY,
    ),
]
Retain = Annotated[
    float | None,
    typer.Option(
        "--retain", min=0.5, max=1, help="Aim: keep this share of the reference's accuracy, cheapest."
    ),
]
Sure = Annotated[
    float | None,
    typer.Option(
        "--sure",
        help="With --retain: keep the share on this workload with that probability.",
        rich_help_panel=OTHER_AIMS,
    ),
]
Budget = Annotated[
    float | None,
    typer.Option(
        "--budget",
        min=1,
        help="Aim: the best accuracy for at most this many mean paths, 90% sure.",
        rich_help_panel=OTHER_AIMS,
    ),
]
ValuePerCorrect = Annotated[
    float | None,
    typer.Option(
        "--value-per-correct",
        min=0,
        help="Aim: worth of one right answer (with --cost-per-path).",
        rich_help_panel=OTHER_AIMS,
    ),
]
CostPerPath = Annotated[
    float | None,
    typer.Option(
        "--cost-per-path",
        min=0,
        help="Aim: cost of one path (with --value-per-correct).",
        rich_help_panel=OTHER_AIMS,
    ),
]
Slower = Annotated[
    str,
    typer.Option(
        "--slower",
        metavar="F|any",
        help="The median and p95 of the time to answer may be at most F times today's.",
    ),
]
BudgetDollars = Annotated[
    float | None,
    typer.Option(
        "--budget-dollars",
        min=0,
        help="Aim: the most accuracy at this mean cost per question.",
        rich_help_panel=OTHER_AIMS,
    ),
]
Tolerance = Annotated[
    float, typer.Option("--tolerance", min=0, max=1, help="Accuracy that a plan may lose and still save.")
]
Branches = Annotated[
    list[Path] | None,
    typer.Option(
        "--branch",
        help="TOML file of one branch (model, sampling, prompt), for several; repeatable.",
        rich_help_panel=BRANCHES,
    ),
]
KeepAll = Annotated[
    bool,
    typer.Option(
        "--keep-all",
        help="Drop no branch that a cheaper one beats early (with --branch).",
        rich_help_panel=BRANCHES,
    ),
]
Policies = Annotated[
    list[str] | None,
    typer.Argument(metavar="POLICY", help="Policies to replay.", show_default="a range of them"),
]
OldPolicies = Annotated[list[str] | None, typer.Option("--policy", hidden=True)]
RandomSlots = Annotated[
    bool,
    typer.Option(
        "--random-slots", help="Deployment draws its template slots at random.", rich_help_panel=COMPUTED
    ),
]
Arms = Annotated[
    bool, typer.Option("--arms", help="The two PATHs are arms: compare the second with the first.")
]
Accuracy = Annotated[float, typer.Option("--p", min=0, max=1, help="Accuracy of one path.")]
Correlation = Annotated[float, typer.Option("--c", max=1, help="Correctness correlation of two paths.")]
AnswerCount = Annotated[
    int | None,
    typer.Option(
        "--answers", min=2, help="Answers that a question may have (multiclass).", show_default="two"
    ),
]
Pilot = Annotated[
    bool, typer.Option("--pilot", help="Also: paths per question with which a pilot measures c best.")
]
