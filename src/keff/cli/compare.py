"""Test whether B is better than A.

Shows the paired difference with interval, p-value and noise, then correlation, K_eff and votes of both. With
--gate: has a run become worse than its baseline? Pass (exit code 0), worse (3) or repeat once more (4).

Example: keff compare baseline.jsonl run.jsonl --gate 5
"""

from __future__ import annotations

import os
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from keff.analysis.arms import Comparing, compare_all, open_scored, repeats_of
from keff.analysis.gate import Gating
from keff.analysis.gate import gate as judge
from keff.analysis.results.comparison import Comparison, ScoreComparison
from keff.analysis.results.gate import Gate
from keff.analysis.results.gate import markdown as as_markdown
from keff.analysis.scores import worse_than
from keff.cli import _options as o
from keff.cli._console import say, tell
from keff.cli._groups import LogOptions
from keff.errors import UsageError
from keff.plugins import import_extra

# Exit codes for continuous integration: B is worse, the run is to be repeated, nothing is decided.
WORSE, REPEAT, UNDECIDED = 3, 4, 5

Arms = Annotated[
    list[str],
    typer.Argument(
        metavar="A B",
        help="A and what is compared with it: PATH, PATH#SLOTS (run#0) or PATH#PART. Of one log with several "
        "models: all pairs.",
        show_default=False,
    ),
]
gate_option = o.panel("A gate for continuous integration")
Tolerance = Annotated[
    float, typer.Option("--tolerance", metavar="POINTS", min=0, help="B may be worse by this many points.")
]
FailIfWorse = Annotated[
    bool,
    typer.Option(
        "--fail-if-worse", help="Exit with 3 if B is worse than A by more than --tolerance, beyond chance."
    ),
]
FailIfUndecided = Annotated[
    bool, typer.Option("--fail-if-undecided", help="Exit with 5 if keff cannot tell.")
]
Points = Annotated[
    float | None,
    gate_option(
        "--gate",
        metavar="POINTS",
        help="A is a baseline, the others repeats of one run: how many points it may lose, such as 5.",
    ),
]
MaxRepeats = Annotated[
    int, gate_option("--max-repeats", min=1, help="Ask for at most this many repeats of the run.")
]
NewQuestions = Annotated[
    bool,
    gate_option("--new-questions", help="Judge questions like these, instead of these very ones."),
]
Markdown = Annotated[
    bool,
    typer.Option(
        "--markdown", help="Print Markdown for a pull request; in GitHub Actions also to the job's summary."
    ),
]


@o.grouped
def command(
    arms: Arms,
    tolerance: Tolerance = 0.0,
    fail_if_worse: FailIfWorse = False,
    fail_if_undecided: FailIfUndecided = False,
    gate: Points = None,
    max_repeats: MaxRepeats = 8,
    new_questions: NewQuestions = False,
    report: o.EvalPage = None,
    *,
    log: LogOptions,
    trim: o.Trim = None,
    sources: o.Sources = None,
    seed: o.AnalysisSeed = 0,
    json: o.Json = False,
    markdown: Markdown = False,
) -> None:
    """Compare what follows with A."""
    if (fail_if_worse or tolerance) and len(arms) < 2:
        raise UsageError("--fail-if-worse compares B with A: give two logs")
    if gate is not None and (fail_if_worse or tolerance or report is not None):
        raise UsageError("--gate has its own tolerance and exit codes, and no page: leave out the other flag")
    if json and markdown:
        raise UsageError("--json and --markdown both take stdout: give one of them")
    opening = log.opening(trim=trim, sources=sources)
    try:
        if gate is not None:
            baseline, *runs = [repeats_of(arm, opening) for arm in arms]
            found = judge(baseline, [*chain(*runs)], Gating(gate, max_repeats, new_questions))
        else:
            one = len(arms) > 1
            scored = [each for arm in arms for each in open_scored(arm, opening, one=one, apart=not one)]
            found = compare_all(scored, len(arms) - 1, Comparing(seed=seed))
    except ValueError as error:
        raise UsageError(str(error)) from None
    if report is not None and not isinstance(found, Gate):
        import_extra("keff.report.evals", "the page").write_comparison_page(found, report)
    if markdown:
        _tell_markdown(found)
    else:
        tell(found, json=json)
    if code := _code(found, tolerance if fail_if_worse else None, fail_if_undecided):
        raise typer.Exit(code)


def _code(found: Gate | Comparison | ScoreComparison, tolerance: float | None, undecided: bool) -> int:
    """Return the exit code of a comparison; ``tolerance`` is None where worse is no failure."""
    if isinstance(found, Gate):
        codes = {"pass": 0, "worse": WORSE, "repeat": REPEAT, "undecided": UNDECIDED * undecided}
        return codes[found.verdict]
    if tolerance is not None and any(worse_than(pair, tolerance) for pair in found.pairs):
        return WORSE
    return UNDECIDED * (undecided and any(pair.verdict == "not decided" for pair in found.pairs))


def _tell_markdown(found: Gate | Comparison | ScoreComparison) -> None:
    """Print Markdown, and add it to the summary of a job of GitHub Actions."""
    text = as_markdown(found)
    say(text)
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(text + "\n")
