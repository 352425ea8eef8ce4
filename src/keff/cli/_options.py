"""Options that several commands share, each declared once, and groups of them as the fields of a dataclass.

A command picks the declaration whose help is true for it and states its own default. Where nothing is given
and something is worked out, ``show_default`` says what.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Option

from keff.answers import from_command_line, key_spec, trust
from keff.policy.spec import MAX_CAP
from keff.usercode import UserCode


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command so that its dataclass parameters become one option per field."""
    groups: dict[str, tuple[Callable[..., object], list[str]]] = {}
    options: list[inspect.Parameter] = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        if isinstance(parameter.annotation, type) and is_dataclass(parameter.annotation):
            fields = inspect.signature(parameter.annotation, eval_str=True).parameters.values()
            groups[parameter.name] = parameter.annotation, [field.name for field in fields]
            options += fields
        else:
            options.append(parameter)

    def with_groups(**given: object) -> None:
        made = {
            name: group(**{field: given.pop(field) for field in fields if field in given})
            for name, (group, fields) in groups.items()
        }
        command(**made, **given)

    options = [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in options]
    with_groups.__signature__ = inspect.Signature(options)  # pyright: ignore[reportFunctionMemberAccess]
    with_groups.__annotations__ = {option.name: option.annotation for option in options}
    with_groups.__doc__ = command.__doc__
    return with_groups


def panel(title: str) -> Callable[..., Any]:
    """Return typer's ``Option`` for options listed under a help heading."""
    return partial(Option, rich_help_panel=title)


record_option = panel("How the record is read")
TaskName = Annotated[
    str, Argument(metavar="TASK", help="A benchmark (keff list tasks), starter, or your own file.jsonl.")
]
Paths = Annotated[
    list[Path],
    Argument(
        metavar="PATH", help="Run folders or logs; PATH#PART is one record of several.", show_default=False
    ),
]
ArmPath = Annotated[str, Argument(metavar="PATH", help="A run or log; PATH#SLOTS or PATH#PART.")]
RunArgument = Annotated[Path, Argument(metavar="RUN", help="A run folder.")]
RunOrLog = Annotated[Path, Argument(metavar="RUN", help="A run folder or a recorded log; PATH#PART.")]
LogFile = Annotated[Path, Argument(metavar="LOG", help="A recorded log in any format that keff reads.")]
PublishedFolder = Annotated[Path, Argument(metavar="DIR", help="The folder of the published records.")]
StudyFile = Annotated[Path, Argument(metavar="FILE", help="The study file (TOML).")]
Format = Annotated[
    str | None,
    record_option(
        "--format",
        metavar="NAME[:OPTIONS]",
        help="Format of the log, with its options: inspect_ai:scorer=match,threshold=0.5.",
        show_default="auto-detected",
    ),
]
AnswerSpaceName = Annotated[
    str | None,
    record_option(
        "--answer-space",
        metavar="NAME[:OPTIONS]",
        help="How keff finds and compares answers (keff list spaces): numeric, choice, json:fields=a,b, ...",
    ),
]
AnswerKey = Annotated[
    str | None,
    record_option(
        "--answer-key",
        metavar="FILE.py:FUNCTION",
        help="Your own function, answer -> vote key (str or None). Every later command needs it too.",
    ),
]
Trim = Annotated[
    int | None,
    record_option(
        "--trim", min=1, help="Use the first K paths of each question, and leave out questions with fewer."
    ),
]
Partial = Annotated[bool, record_option("--partial", help="Accept a run that was interrupted.")]
Rescore = Annotated[
    bool,
    record_option(
        "--rescore", help="Compare answers with the gold answers again, instead of taking the log's verdicts."
    ),
]
CountOn = Annotated[
    str | None,
    record_option("--on", metavar="ray[://HOST:PORT]", help="Read Parquet files on a Ray cluster's nodes."),
]
Pool = Annotated[bool, record_option("--pool", help="Read several PATHs of one model as one record.")]
Columns = Annotated[
    str | None,
    record_option(
        "--columns",
        metavar="WORD=COLUMN,...",
        help="Names of your columns: id=nr,answer=reply,correct=ok.",
    ),
]
BranchNames = Annotated[
    str | None,
    record_option(
        "--branches",
        metavar="NAMES.json|A,B,C",
        help="Names of the models or prompts, where each column of paths is one.",
    ),
]
Sources = Annotated[
    Literal["fixed", "random"] | None,
    record_option(
        "--sources",
        help="Your prompts, judges or branches: all that you ask (fixed), or a sample of many (random).",
        show_default="random, if each path of a question has its own",
    ),
]


def reading_of(answer_space: str | None, answer_key: str | None) -> str | None:
    """Return the answer space of both flags, trusting the function of ``--answer-key``."""
    spec = None if answer_space is None else from_command_line(answer_space)
    if answer_key is None:
        return spec
    return key_spec(trust(UserCode.parse(answer_key, "answer key")), spec)


MOST_PAID = f"the most paths you would pay for per question (to {MAX_CAP})."


def _cap(meaning: str, *, shown: bool | str = True) -> Any:
    return Option("--cap", min=1, help=f"K_max: {meaning}", show_default=shown)


money_option = panel("Money and time")
computing_option = panel("How it is computed")
branches_option = panel("Several branches")
aim_option = panel("Other aims than --retain")
AnalysisSeed = Annotated[
    int,
    computing_option("--seed", min=0, help="Random seed of resamples, orders and folds."),
]
Replicates = Annotated[int, computing_option("--replicates", min=100, help="Bootstrap resamples.")]
Epsilon = Annotated[float, computing_option("--epsilon", help="The paper's marginal-gain threshold for K*.")]
Rule = Annotated[
    str | None,
    Option(
        "--rule",
        metavar="adaptive_k",
        help="Deploy the paper's K* (Adaptive-K), compared with --now or else with K_max paths.",
        show_default="keff's own decision",
    ),
]
Cap = Annotated[int, _cap(MOST_PAID)]
ReplayCap = Annotated[
    int | None, _cap("compare with the plurality of this many paths.", shown="what you run today")
]
DecisionCap = Annotated[int | None, _cap(MOST_PAID, shown="what you run today; curves to 32")]
Now = Annotated[
    str | None,
    Option(
        "--now",
        metavar="K|POLICY",
        help="What you run today, for example 8. Savings are measured against it.",
        show_default="the recorded paths, at most 64",
    ),
]
Prices = Annotated[
    Path | None,
    money_option(
        "--prices",
        help='TOML prices: per ["model"] prompt, output, cached (per million tokens), or path, or second.',
    ),
]
Volume = Annotated[
    int | None,
    money_option(
        "--volume",
        min=1,
        help="How many questions you expect: keff says what they will cost (with --prices).",
    ),
]
PaceText = Annotated[
    str | None,
    money_option(
        "--pace",
        metavar="FIRST+RATE",
        help="If your log has no seconds: seconds to the first token, and tokens per second (0.5+60).",
    ),
]
Retain = Annotated[
    float | None,
    Option(
        "--retain",
        min=0.5,
        max=1,
        help="Aim: keep this share of today's accuracy (0.99), at the lowest cost.",
    ),
]
Sure = Annotated[
    float | None,
    aim_option("--sure", help="With --retain: how sure you want to be that this workload keeps it (0.9)."),
]
Budget = Annotated[
    float | None,
    aim_option(
        "--budget", min=1, help="Aim: the best accuracy with at most this many paths per question on average."
    ),
]
ValuePerCorrect = Annotated[
    float | None,
    aim_option(
        "--value-per-correct",
        min=0,
        help="Aim: what a right answer is worth to you; needs --cost-per-path (mix: or --prices).",
    ),
]
CostPerPath = Annotated[
    float | None,
    aim_option("--cost-per-path", min=0, help="With --value-per-correct: the cost of one path."),
]
FalseAccept = Annotated[
    float | None,
    Option(
        "--false-accept",
        min=0,
        max=1,
        metavar="SHARE",
        help="Share of wrong answers that a checker passes (0, or what gold answers show).",
    ),
]
Slower = Annotated[
    str,
    Option(
        "--slower",
        metavar="F|any",
        help="How much longer answers may take, median and slowest 5%: at most F times today's, or any.",
    ),
]
BudgetDollars = Annotated[
    float | None,
    aim_option("--budget-dollars", min=0, help="Aim: the best accuracy at this mean cost per question."),
]
MaxLoss = Annotated[
    float,
    Option(
        "--max-loss", metavar="POINTS", min=0, max=100, help="A plan may lose this many points of accuracy."
    ),
]
# What --max-loss was called when it took a share; in compare a tolerance is in points.
MaxLossAsShare = Annotated[float | None, Option("--tolerance", hidden=True)]
Branches = Annotated[
    list[Path] | None,
    branches_option(
        "--branch", help="TOML file of one branch (model, sampling, prompt), for several; repeatable."
    ),
]
KeepAll = Annotated[
    bool,
    branches_option(
        "--keep-all", help="Keep all branches, also those that a cheaper one beats early (with --branch)."
    ),
]
Policies = Annotated[
    list[str] | None,
    Argument(
        metavar="POLICY",
        help="Rules to replay, such as lead_k:3,cap=8 (keff list policies).",
        show_default="a range of them",
    ),
]
# Elsewhere a rule is given as --policy: replay takes it so, too.
PoliciesByName = Annotated[list[str] | None, Option("--policy", hidden=True)]
RandomSlots = Annotated[
    bool, computing_option("--random-slots", help="Template slots are drawn at random when deployed.")
]
Accuracy = Annotated[float, Option("--p", min=0, max=1, help="Accuracy of one path.")]
Correlation = Annotated[float, Option("--c", max=1, help="Correctness correlation of two paths.")]
AnswerCount = Annotated[
    int | None,
    Option("--answers", min=2, help="Answers that a question may have (multiclass).", show_default="two"),
]
Pilot = Annotated[bool, Option("--pilot", help="Also print how many paths per question measure c best.")]


Json = Annotated[bool, Option("--json", help="Print one JSON object on stdout and nothing else there.")]
Verbose = Annotated[
    bool,
    Option(
        "-v",
        "--verbose",
        rich_help_panel="Output",
        help="Show more: exact stopping boundaries, more intervals.",
    ),
]
PlanOut = Annotated[Path | None, Option("-o", "--out", help="Write the plan (plan.json) here.")]
Embeddings = Annotated[
    str | None,
    Option(
        metavar="FILE",
        help="Embeddings of the paths: FILE.npy [questions, paths, dimensions] or FILE.parquet#COLUMN.",
        show_default="the run's own",
    ),
]
PageOut = Annotated[Path | None, Option("--report", help="Write the report page here.")]

EvalPage = Annotated[Path | None, Option("-o", "--report", help="Write the page here.")]
JoinOut = Annotated[Path, Option("-o", "--out", help="The joined JSONL to write.")]
ReportOut = Annotated[Path, Option("-o", "--out", help="The page to write.")]
ReplayOut = Annotated[
    Path | None,
    Option("-o", "--out", help="Also write here: FILE.md the table, FILE.svg or FILE.pdf a figure."),
]
TablesOut = Annotated[
    Path | None, Option("-o", "--out", help="A folder for one file per table.", show_default="stdout")
]
ExportOut = Annotated[
    Path | None,
    Option(
        "-o", "--out", help="The file; .parquet is Parquet, else JSONL.", show_default="named after RUN, here"
    ),
]
ReproduceOut = Annotated[Path, Option("-o", "--out", help="Folder for tables, figures and numbers.")]
StudyOut = Annotated[
    Path | None, Option("-o", "--out", help="Folder for the report.", show_default="beside the runs")
]
Figures = Annotated[bool, Option(" /--no-figures", help="Draw no figures.", show_default=False)]
Votes = Annotated[
    bool, Option("--votes", help="Only the voted answer of each question, and how strong the vote is.")
]
Changed = Annotated[
    bool, Option("--changed", help="You changed the scorer on purpose: score with it, and record that.")
]
Texts = Annotated[bool, Option(" /--no-texts", help="Leave out the raw texts.", show_default=False)]
