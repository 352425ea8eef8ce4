"""Draw a pilot of 800 paths, and recommend what to run.

Questions are JSON lines with id, question and, if known, answer.

Example: keff pilot questions.jsonl --model my-model --run pilot --now 8
"""

from __future__ import annotations

from dataclasses import asdict

from keff.analysis.mix.choose import MixAim
from keff.analysis.mix.study import MixSettings
from keff.analysis.results.estimates import Analysis
from keff.cli import _options as o
from keff.cli import _sample_options as s
from keff.cli._branches import draw_branches, read_branches
from keff.cli._console import note
from keff.cli._groups import WantedOptions
from keff.cli._preflight import sample_as_wished
from keff.cli._sampling import DrawOptions, SampleOptions, report
from keff.cli.analyze import analyze_records
from keff.cli.mix import Outputs, mix_runs, read_table
from keff.errors import UsageError
from keff.policy import policy_now
from keff.reading.open import Opening, open_record
from keff.report.write import write_runs

# Questions x paths of a pilot, 800 either way: of what is drawn today where that is up to 8 paths, and where
# it is not said, so that twice as many as most people draw are measured. Of each of several branches half as
# many paths: for one price, further questions tell branches apart better than further paths.
WIDE, DEEP, BRANCHED = (100, 8), (50, 16), (100, 4)

# The paper's K_max: what so many paths would add is said of a pilot without --now.
BEYOND = 32


@o.grouped
def command(
    drawing: DrawOptions,
    n: s.PilotN = None,
    k: s.PilotK = None,
    out: o.PlanOut = None,
    page: o.PageOut = None,
    *,
    wanted: WantedOptions,
    branch: o.Branches = None,
    keep_all: o.KeepAll = False,
    verbose: o.Verbose = False,
    json: o.Json = False,
) -> None:
    """Draw what the pilot still owes and analyse it."""
    wide = wanted.now is not None and policy_now(wanted.now).cap <= WIDE[1]
    # Adaptive-K's own pilot is as wide and as shallow as that of one of several branches.
    usual = BRANCHED if branch or wanted.rule else WIDE if wide else DEEP
    if wanted.rule and branch:
        raise UsageError(f"--rule {wanted.rule} is a rule of one model: leave out --branch")
    if wanted.rule and 1 in (n, k):
        raise UsageError(f"--rule {wanted.rule} needs two questions and two paths (the paper: --k 4)")
    wishes = SampleOptions(**asdict(drawing), n=n or usual[0], k=k or usual[1])
    if branch:
        branches = read_branches(branch, wishes)
        aim = MixAim(wanted.retain, wanted.budget_dollars, wanted.value_per_correct, wanted.cost_per_path)
        mixing = MixSettings(wanted.cap or 32, aim, read_table(wishes.prices), seed=wishes.seed)
        mixing.check([(name, own.model) for name, own in branches.items()])  # before anything is drawn
        draw_branches(branches, mixing.prices, keep_all=keep_all)
        mix_runs(
            [own.run for own in branches.values()],
            mixing,
            Outputs(out, page, branch),
            Opening(partial=True),  # what a spent budget left undrawn was said above
            names=list(branches),
            verbose=verbose,
            json=json,
        )
        return
    settings = wanted.settings(wishes.prices, wishes.seed)
    if settings.terms.tariff is not None and wishes.model is not None:
        settings.terms.tariff.of(wishes.model)  # before anything is drawn
    job, drawn = sample_as_wished(wishes)
    report(job, drawn)
    record = open_record(wishes.run, Opening(texts=page is not None, partial=True))
    analyses = analyze_records([record], settings, out, verbose=verbose, json=json)
    if page is not None:
        write_runs(analyses, page)
    if wanted.now is None and wanted.rule is None and not json:
        say_beyond(analyses[0][1])


def say_beyond(analysis: Analysis) -> None:
    """Print today's reference, and the predicted gain of 32 paths."""
    note(f"keff assumes that you draw {analysis.k} paths today, as in this pilot. If not, say so: --now K.")
    ahead = None if analysis.predicted is None else (analysis.predicted.plurality or {}).get(BEYOND)
    if ahead is not None and analysis.plurality is not None and analysis.k < BEYOND:
        note(
            f"The vote of {analysis.k} paths is right on {analysis.plurality[analysis.k]:.1%} of these "
            f"questions. For {BEYOND} paths we predict {ahead.percent()}."
        )
