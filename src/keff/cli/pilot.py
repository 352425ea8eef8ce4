"""Sample a pilot (100 items x 8 paths), then analyze it."""

from __future__ import annotations

from dataclasses import replace

from keff.analysis.estimates import Settings
from keff.analysis.mix.choose import MixAim
from keff.analysis.mix.study import MixSettings
from keff.cli import _aim_options as a
from keff.cli import _sample_options as s
from keff.cli import _write_options as w
from keff.cli._branches import draw_branches, read_branches
from keff.cli._grouped import grouped
from keff.cli._groups import AimOptions, MoneyOptions
from keff.cli._preflight import sample_as_wished
from keff.cli._sampling import Wishes, report
from keff.cli.analyze import analyze_records
from keff.cli.mix import Outputs, mix_runs, read_table
from keff.reading.open import Opening, open_record
from keff.report.write import write_runs


@grouped(without=("policy", "shard", "money.prices"), n=(s.N, 100))
def command(
    wishes: Wishes,
    out: w.PlanOut = None,
    page: w.PageOut = None,
    epsilon: a.Epsilon = 0.025,
    cap: a.Cap = 32,
    *,
    money: MoneyOptions,
    goal: AimOptions,
    branch: a.Branches = None,
    json: w.Json = False,
) -> None:
    """Draw what the pilot still owes and analyse it."""
    if branch:
        branches = read_branches(branch, wishes)
        settings = MixSettings(cap, MixAim(retain=goal.retain), read_table(wishes.prices), seed=wishes.seed)
        outputs = Outputs(out, page, branch)
        drawn = draw_branches(branches)
        # What a spent budget left undrawn was said above.
        mix_runs(drawn, settings, outputs, Opening(partial=True), names=list(branches), json=json)
        return
    priced = replace(money, prices=wishes.prices)
    terms = priced.terms(None, goal.budget_dollars)
    if terms.tariff is not None and wishes.model is not None:
        terms.tariff.of(wishes.model)  # before anything is drawn
    wanted = Settings(epsilon=epsilon, k_max=cap, seed=wishes.seed, aim=goal.aim(), terms=terms)
    job, drawn = sample_as_wished(wishes)
    report(job, drawn, json=False)
    analyses = analyze_records(
        [open_record(wishes.run, Opening(texts=page is not None, partial=True))], wanted, out, json=json
    )
    if page is not None:
        write_runs(analyses, page)
