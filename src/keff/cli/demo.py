"""Measure a small real model on this machine, in minutes.

It samples the starter task and says how many paths are worth paying for.
"""

from __future__ import annotations

from pathlib import Path

from keff.analysis.estimates import Settings, analyze
from keff.analysis.plans import make_plan
from keff.analysis.recommend import Aim
from keff.cli import _sample_options as s
from keff.cli import _write_options as w
from keff.cli._beside import beside
from keff.cli._console import progress_console
from keff.cli._page import write_report_if_possible
from keff.cli._sampling import Wishes, draw, report
from keff.cli.analyze import show
from keff.reading.open import Opening, open_record
from keff.report.headline import headline

MORE = 120
"""So many questions tell more often than not for the demo's model; they take longer than a demo may."""


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
    _say(f"\nDecision: {headline(estimates.recommendation, estimates.cap).sentence}")
    if estimates.recommendation.verdict == "pilot too small" and n < MORE:
        _say(f"keff demo --run demo-{MORE} --n {MORE} asks enough questions to tell, in five minutes or so.")
    _say(f"keff serve --plan {run / 'plan.json'} --upstream URL deploys it.")


def _say(line: str) -> None:
    progress_console.print(line, markup=False, soft_wrap=True)
