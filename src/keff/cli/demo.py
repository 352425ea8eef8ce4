"""Measure a small real model on this machine, in minutes.

It samples the starter task and says how many paths are worth paying for.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from keff.analysis.atlas import AtlasEntry
from keff.analysis.decision import Aim
from keff.analysis.estimates import Settings, analyze
from keff.analysis.plans import make_plan
from keff.analysis.results.decision_words import first_sentence
from keff.analysis.results.estimates import Analysis
from keff.cli import _sample_options as s
from keff.cli import _write_options as w
from keff.cli._console import progress_console
from keff.cli._sampling import Wishes, draw, report
from keff.cli.analyze import show
from keff.errors import PluginError
from keff.reading.open import Opening, Record, open_record
from keff.report.atlas import read_atlas
from keff.report.write import write_runs


def write_report_if_possible(runs: Sequence[tuple[Record, Analysis]], file: Path) -> bool:
    """Write the page, or say which extra it needs and return False."""
    try:
        write_runs(runs, file)
    except PluginError as error:
        progress_console.print(f"No report page: {error}", markup=False, soft_wrap=True)
        return False
    return True


# Five lines of docs/atlas, chosen and written by scripts/write_readme.py.
FILE = Path(__file__).with_name("_beside.json")


def beside() -> list[str]:
    """Return what was measured on five recorded workloads, one sentence each."""
    return [_told(entry) for entry in read_atlas(FILE).entries]


def _told(entry: AtlasEntry) -> str:
    accuracy = f"one path is right {entry.p.percent()} of the time"
    if entry.vote is not None:
        accuracy += f", the vote of {entry.today} {entry.vote.percent()}"
    rule = f"{entry.model}, {entry.dataset}: {accuracy}"
    if entry.kept is None or entry.mean_paths is None:
        return f"{rule}."
    paths = "1 path" if entry.mean_paths.value == 1 else f"{entry.mean_paths.text('.1f')} paths"
    return f"{rule}; {entry.policy} keeps {entry.kept.percent()} of that with {paths} per question."


# So many questions tell more often than not for the demo's model; they take longer than a demo may.
MORE = 120


def command(
    run: s.RunFolder = Path("demo-run"),
    n: s.N = 48,
    k: s.K = 8,
    seed: s.Seed = 0,
    model: s.Model = None,
    json: w.Json = False,
) -> None:
    """Sample SmolLM2-135M-Instruct on this machine, analyse, and write plan.json and report.html."""
    if not run.exists():
        _say(
            f"Asking SmolLM2-135M-Instruct {n} questions {k} times each, on this machine: about "
            "three minutes."
        )
    job = Wishes(task="starter", run=run, engine="llamacpp", model=model, n=n, k=k, seed=seed).job()
    report(job, draw(job), json=False)
    record = open_record(run, Opening(texts=True))
    estimates = analyze(record, Settings(seed=seed, aim=Aim()))
    make_plan(record, estimates).write(run / "plan.json")
    show([(record, estimates)], json=json)
    if not json:
        _say("\nBeside it, recorded generations of larger models (the atlas in the documentation has 60):")
        for line in beside():
            _say(f"  {line}")
    page = run / "report.html"
    if write_report_if_possible([(record, estimates)], page):
        _say(f"\n{page} has the curve and every path: open it in a browser.")
    _say(f"\nDecision: {first_sentence(estimates.decision)}")
    if estimates.decision.verdict == "open" and n < MORE:
        _say(f"keff demo --run demo-{MORE} --n {MORE} asks enough questions to tell, in five minutes or so.")
    _say(f"keff serve --plan {run / 'plan.json'} --upstream URL deploys it.")


def _say(line: str) -> None:
    progress_console.print(line, markup=False, soft_wrap=True)
