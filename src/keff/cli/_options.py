"""Options and arguments of the command line, each declared once (those of drawing: _sample_options).

A command picks the declaration whose help is true for it and states its own default. Where nothing is given
and something is worked out, ``show_default`` says what.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Literal

import typer

from keff.answers import from_command_line, key_spec, trust
from keff.errors import UsageError, unknown
from keff.policy_spec import MAX_CAP
from keff.usercode import UserCode

# What is read
TaskName = Annotated[
    str,
    typer.Argument(metavar="TASK", help="A benchmark (keff list tasks), starter, or your own file.jsonl."),
]
Paths = Annotated[
    list[Path], typer.Argument(metavar="PATH...", help="Run folders or recorded logs.", show_default=False)
]
ReplayPath = Annotated[
    str, typer.Argument(metavar="PATH", help="A run folder or a recorded log; PATH#SLOT, PATH#PART.")
]
CombinePath = Annotated[str, typer.Argument(metavar="PATH", help="A run or log; PATH#SLOTS or PATH#PART.")]
FirstArm = Annotated[
    str, typer.Argument(metavar="SC", help="The first arm: PATH, PATH#SLOTS (run#0) or PATH#PART.")
]
SecondArm = Annotated[str, typer.Argument(metavar="PT", help="The second arm, on the same questions.")]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
RunOrLog = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder or a recorded log.")]
LogFile = Annotated[Path, typer.Argument(metavar="LOG", help="A recorded log in any format that keff reads.")]
PublishedFolder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the published records.")]
StudyFile = Annotated[Path, typer.Argument(metavar="FILE", help="The study file (TOML).")]
Format = Annotated[
    str | None, typer.Option("--format", help="Format of the log.", show_default="auto-detected")
]
LogFormat = Annotated[
    str | None, typer.Option("--log-format", help="Format of the log.", show_default="auto-detected")
]
AnswerSpaceName = Annotated[
    str | None,
    typer.Option(
        "--answer-space",
        metavar="NAME[:OPTIONS]",
        help="How answers are read and compared (keff list spaces), such as numeric or json:fields=a,b.",
    ),
]
AnswerKey = Annotated[
    str | None,
    typer.Option(
        "--answer-key",
        metavar="FILE.py:FUNCTION",
        help="Your own function, answer -> vote key (str or None); needed again by every command.",
    ),
]
Trim = Annotated[
    int | None, typer.Option("--trim", min=1, help="Use the first K paths; leave out questions with fewer.")
]
Part = Annotated[
    str | None,
    typer.Option("--part", help="Which record of a log that holds several, such as gsm8k/sc."),
]
Pool = Annotated[bool, typer.Option("--pool", help="Read several PATHs as one record.")]
Embeddings = Annotated[
    Path | None,
    typer.Option(
        "--embeddings",
        help="NumPy array [questions, paths, dimensions] for GLS-R (.npy).",
        show_default="those of the run",
    ),
]

# What is estimated and recommended
AnalysisSeed = Annotated[
    int, typer.Option("--seed", help="Seed of what the analysis draws at random: resamples, orders, folds.")
]
Replicates = Annotated[int, typer.Option("--replicates", min=100, help="Bootstrap resamples.")]
Epsilon = Annotated[float, typer.Option("--epsilon", help="The paper's marginal-gain threshold for K*.")]
Cap = Annotated[
    int,
    typer.Option(
        "--cap",
        "--k-max",
        min=1,
        help=f"K_max: the most paths you would pay for per question (to {MAX_CAP}).",
    ),
]
ReplayCap = Annotated[
    int | None,
    typer.Option(
        "--cap",
        "--k-max",
        min=1,
        help="K_max: compare with the plurality of this many paths.",
        show_default="32, or as many as are recorded",
    ),
]
CapOr32 = Annotated[
    int | None,
    typer.Option(
        "--cap",
        "--k-max",
        min=1,
        help=f"K_max: the most paths you would pay for per question (to {MAX_CAP}).",
        show_default="32",
    ),
]
Now = Annotated[
    str | None,
    typer.Option(
        "--now",
        metavar="K|POLICY",
        help="What is deployed today: savings are against it.",
        show_default="--cap where given, else what was drawn",
    ),
]
PriceTable = Annotated[
    Path | None,
    typer.Option(
        "--prices",
        help='TOML price table: ["model"] with prompt, output per million tokens, or path, or second.',
    ),
]
Volume = Annotated[
    int | None,
    typer.Option("--volume", min=1, help="Questions to come: what they will cost (with --prices)."),
]
PaceText = Annotated[
    str | None,
    typer.Option(
        "--pace",
        metavar="FIRST+RATE",
        help="Seconds of a path where none are recorded: to the first token, and tokens per second (0.5+60).",
    ),
]
MaxRounds = Annotated[
    int | None,
    typer.Option("--max-rounds", min=1, help="Draw the paths of a question in at most this many rounds."),
]
P95 = Annotated[
    float | None,
    typer.Option("--p95", min=0, metavar="SECONDS", help="Answer 95% of questions within so many seconds."),
]
ReplayInFlight = Annotated[
    int | None,
    typer.Option(
        "--in-flight", min=1, help="Paths kept in flight, as by serve: seconds, and tokens in vain."
    ),
]
Slots = Annotated[
    int | None,
    typer.Option(
        "--concurrency", min=1, help="Paths that run at once: the others queue.", show_default="all"
    ),
]
Alone = Annotated[
    float,
    typer.Option(
        "--alone", help="Share of the recorded seconds that a path takes alone (with --concurrency)."
    ),
]
Retain = Annotated[
    float | None,
    typer.Option("--retain", min=0.5, max=1, help="Aim: keep this share of the accuracy at K_max, cheapest."),
]
Confidence = Annotated[
    float | None,
    typer.Option(
        "--confidence", help="With --retain: keep the share on this workload with that probability."
    ),
]
Budget = Annotated[
    float | None,
    typer.Option(
        "--budget", min=1, help="Aim: the best accuracy for at most this many mean paths, 90% sure."
    ),
]
BudgetMean = Annotated[
    float | None,
    typer.Option("--budget-mean", min=1, help="Aim: the best accuracy for this many mean paths expected."),
]
ValuePerCorrect = Annotated[
    float | None,
    typer.Option("--value-per-correct", min=0, help="Aim: worth of one right answer (with --cost-per-path)."),
]
CostPerPath = Annotated[
    float | None,
    typer.Option("--cost-per-path", min=0, help="Aim: cost of one path (with --value-per-correct)."),
]
BudgetDollars = Annotated[
    float | None,
    typer.Option("--budget-dollars", min=0, help="Aim: the most accuracy at this mean cost per question."),
]
Tolerance = Annotated[
    float, typer.Option("--tolerance", min=0, max=1, help="Accuracy that a plan may lose and still save.")
]
Branches = Annotated[
    list[Path] | None,
    typer.Option(
        "--branch", help="TOML file of one branch (model, sampling, prompt), for several; repeatable."
    ),
]
Policies = Annotated[
    list[str] | None,
    typer.Option("--policy", help="A policy to replay; repeatable.", show_default="a range of them"),
]
RandomSlots = Annotated[
    bool, typer.Option("--random-slots", help="Deployment draws its template slots at random.")
]
UnpairedRows = Annotated[
    bool, typer.Option("--unpaired-rows", help="The paper's bootstrap: rows, each arm on its own.")
]
Folds = Annotated[int, typer.Option("--folds", min=2, help="Cross-fitting folds.")]
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
Processes = Annotated[
    int | None, typer.Option("--processes", min=1, help="Processes to use.", show_default="one per core")
]

# What is written
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else there.")]
PlanOut = Annotated[Path | None, typer.Option("-o", "--out", help="Write the plan (plan.json) here.")]
PageOut = Annotated[Path | None, typer.Option("--report", help="Write the report page here.")]
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
    Path | None, typer.Option("-o", "--out", help="The file.", show_default="named after RUN, here")
]
ReproduceOut = Annotated[
    Path, typer.Option("-o", "--out", help="Where tables, figures and numbers are written.")
]
StudyOut = Annotated[
    Path | None,
    typer.Option("-o", "--out", help="Where the report goes.", show_default="beside the runs"),
]
Figures = Annotated[bool, typer.Option("--figures/--no-figures", help="Draw the figures.")]
Votes = Annotated[
    bool,
    typer.Option("--votes", help="Only the voted answer of each question, and how strong the vote is."),
]
Changed = Annotated[
    bool, typer.Option("--changed", help="The scorer was changed on purpose: score with it and record it.")
]
Texts = Annotated[bool, typer.Option("--texts/--no-texts", help="Include the raw texts.")]


def take_defaults(context: typer.Context, file: Path | None) -> Path | None:
    """Take the options in a TOML file as the defaults of a command; raises UsageError for unknown ones."""
    if file is None:
        return None
    try:
        given = tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} is not TOML: {error}") from None
    names = [str(parameter.name) for parameter in context.command.params if parameter.name != "config"]
    named = {name.replace("-", "_"): value for name, value in given.items()}
    for name in named:
        if name not in names:
            raise UsageError(f"{file}: {unknown('option', name, names)}")
    context.default_map = {**(context.default_map or {}), **named}
    return file


# What is served
PlanFile = Annotated[
    Path | None,
    typer.Option(
        "--plan",
        help="The plan to deploy (keff analyze -o plan.json); without one --policy answers every request.",
        show_default="none",
    ),
]
ServePolicy = Annotated[
    str | None,
    typer.Option("--policy", help="Policy of requests, without a plan.", show_default="lead_k:3"),
]
ToolIgnore = Annotated[
    list[str] | None,
    typer.Option(
        "--tool-ignore",
        metavar="ARG",
        help="Argument of tool calls that does not count in a vote, such as a timestamp (repeatable).",
    ),
]
UpstreamUrl = Annotated[
    str | None,
    typer.Option(
        "--upstream",
        help="Base URL of the server that draws the paths.",
        show_default="none: every branch of the plan names its own",
    ),
]
ServedBranches = Annotated[
    list[Path] | None,
    typer.Option("--branch", help="TOML file of one branch of the plan (server, model, prompt); repeatable."),
]
BranchDown = Annotated[
    Literal["skip", "fail"],
    typer.Option("--branch-down", help="A branch that is down is skipped, or fails the request."),
]
FallbackUrl = Annotated[
    str | None,
    typer.Option(
        "--fallback", help="Base URL of a second server of the same models, asked where the first fails."
    ),
]
FallbackKeyEnv = Annotated[
    str | None,
    typer.Option(
        "--fallback-key-env", metavar="NAME", help="Environment variable with the API key of the fallback."
    ),
]
Host = Annotated[str, typer.Option("--host", help="Address to listen on.")]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="Port (0: any).")]
ServeWorkers = Annotated[
    int, typer.Option("--workers", min=1, max=256, help="Processes that serve, on one port.")
]
Strict = Annotated[
    bool, typer.Option("--strict/--allow-mismatch", help="Refuse requests that differ from the plan.")
]
UpstreamModel = Annotated[
    str | None,
    typer.Option("--model", help="Model name at the upstream.", show_default="the plan's, or the request's"),
]
AppendAnswerFormat = Annotated[
    bool, typer.Option("--append-answer-format", help="Add the answer contract to the last message.")
]
FreeText = Annotated[
    Literal["pass", "refuse", "draw"],
    typer.Option(
        "--free-text", help="When the first round holds no answer: pass the text on, refuse, or keep drawing."
    ),
]
Reply = Annotated[
    Literal["shortest", "first"],
    typer.Option("--reply", help="Which of the paths with the winning answer is sent."),
]
MaxPaths = Annotated[int, typer.Option("--max-paths", help="Most paths that a request may ask for.")]
InFlight = Annotated[
    int,
    typer.Option(
        "--in-flight", help="Keep at least this many paths running; those not needed are cancelled."
    ),
]
Replacements = Annotated[
    int, typer.Option("--replacements", min=0, help="Failed upstream calls that are replaced, per request.")
]
Deadline = Annotated[
    float | None,
    typer.Option("--deadline", help="Seconds after which a request is answered with the paths drawn so far."),
]
PathTimeout = Annotated[
    float, typer.Option("--path-timeout", min=0.1, help="Seconds that one upstream call may take.")
]
UpstreamN = Annotated[
    int, typer.Option("--upstream-n", min=1, help="Most paths in one upstream call (lowered if refused).")
]
Connections = Annotated[int, typer.Option("--connections", min=1, help="Most upstream connections at once.")]
TokenEnv = Annotated[
    str | None,
    typer.Option(
        "--token-env",
        metavar="NAME",
        help="Environment variable with the bearer token that clients must send.",
    ),
]
AdminTokenEnv = Annotated[
    str | None,
    typer.Option(
        "--admin-token-env",
        metavar="NAME",
        help="Environment variable with the operator's token for /keff and /keff/plan.",
    ),
]
Keys = Annotated[
    Path | None,
    typer.Option(
        "--keys", help="TOML file of clients' keys with names and limits per day.", show_default="none"
    ),
]
Otlp = Annotated[
    str | None,
    typer.Option("--otlp", metavar="URL", help="Collector that gets traces (OTLP over HTTP; extra otel)."),
]
SpendFile = Annotated[
    Path | None,
    typer.Option("--spend", help="SQLite file of what each key spent.", show_default="beside the key file"),
]
CorsOrigin = Annotated[
    list[str] | None,
    typer.Option("--cors-origin", metavar="ORIGIN", help="Let web pages of this origin ask (repeatable)."),
]
Check = Annotated[bool, typer.Option("--check", help="Check everything that is given, and do not serve.")]
ServeConfig = Annotated[
    Path | None,
    typer.Option(
        "--config",
        is_eager=True,
        callback=take_defaults,
        help="TOML file with any of these options by name; the command line and KEFF_... variables win.",
    ),
]
NowPaths = Annotated[
    int | None,
    typer.Option("--now", min=1, metavar="K", help="Paths you draw per request today, for what is saved."),
]
UpstreamKeyEnv = Annotated[
    str | None,
    typer.Option(
        "--upstream-key-env", metavar="NAME", help="Environment variable with the API key of the upstream."
    ),
]
ForwardHeader = Annotated[
    list[str] | None,
    typer.Option("--forward-header", metavar="X-NAME", help="Header of clients to pass on (repeatable)."),
]
State = Annotated[
    str | None,
    typer.Option(
        "--state", help="State file of the drift alarm; 'none' keeps none.", show_default="beside the plan"
    ),
]
ShadowBudget = Annotated[
    float,
    typer.Option(
        "--shadow-budget",
        min=0,
        max=1,
        help="Spend this share of the paths again on drawing some requests on after their reply, "
        "up to --cap.",
    ),
]
ShadowCap = Annotated[
    int | None,
    typer.Option(
        "--cap",
        min=1,
        max=MAX_CAP,
        help="K_max: where requests that are drawn on end, and without a plan the most paths of a request.",
        show_default="32",
    ),
]
VoteLog = Annotated[
    Path | None, typer.Option("--vote-log", help="Append each request's votes here, redacted.")
]
VoteLogAnswers = Annotated[
    bool, typer.Option("--vote-log-answers", help="Write the answers themselves into the vote log.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Log warnings only.")]


def reading_of(answer_space: str | None, answer_key: str | None) -> str | None:
    """Return the answer space that the two flags name together; trusts the function of ``--answer-key``."""
    spec = None if answer_space is None else from_command_line(answer_space)
    if answer_key is None:
        return spec
    return key_spec(trust(UserCode.parse(answer_key, "answer key")), spec)


Columns = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="WORD=COLUMN,...",
        help="Columns of a table, such as id=question_id,answer=prediction,correct=is_right,model=model.",
    ),
]
LogScorer = Annotated[
    str | None,
    typer.Option("--scorer", metavar="NAME[.KEY]", help="Which of a log's scorers counts (inspect_ai)."),
]
Threshold = Annotated[
    float | None, typer.Option("--threshold", help="A score of at least this is right (inspect_ai).")
]
BranchNames = Annotated[
    str | None,
    typer.Option(
        "--branches",
        metavar="NAMES.json|A,B,C",
        help="Names of the models or prompts whose paths are the columns of the record.",
    ),
]
