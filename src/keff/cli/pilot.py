"""Sample a pilot (100 items x 8 paths), then analyze it."""

from __future__ import annotations

from keff.analysis.estimates import Settings
from keff.analysis.mix.choose import MixAim
from keff.analysis.mix.study import MixSettings
from keff.analysis.rounds import Haste
from keff.cli import _options as o
from keff.cli._branches import draw_branches, read_branches
from keff.cli._money import make_terms
from keff.cli._preflight import sample_as_wished
from keff.cli._sampling import Wishes, report, takes_wishes
from keff.cli.analyze import analyze_records, make_aim
from keff.cli.mix import Outputs, mix_runs, read_table
from keff.reading.open import Opening, open_record
from keff.report.write import write_runs


@takes_wishes(without=("policy", "shard"), n=(o.N, 100))
def command(
    wishes: Wishes,
    out: o.PlanOut = None,
    page: o.PageOut = None,
    epsilon: o.Epsilon = 0.025,
    cap: o.Cap = 32,
    now: o.Now = None,
    volume: o.Volume = None,
    pace: o.PaceText = None,
    max_rounds: o.MaxRounds = None,
    p95: o.P95 = None,
    retain: o.Retain = None,
    confidence: o.Confidence = None,
    budget: o.Budget = None,
    budget_mean: o.BudgetMean = None,
    budget_dollars: o.BudgetDollars = None,
    value_per_correct: o.ValuePerCorrect = None,
    cost_per_path: o.CostPerPath = None,
    branch: o.Branches = None,
    json: o.Json = False,
) -> None:
    """Draw what the pilot still owes and analyse it."""
    if branch:
        branches = read_branches(branch, wishes)
        settings = MixSettings(cap, MixAim(retain=retain), read_table(wishes.prices), seed=wishes.seed)
        outputs = Outputs(out, page, branch)
        mix_runs(draw_branches(branches), settings, outputs, names=list(branches), json=json)
        return
    aim = make_aim(
        retain=retain,
        confidence=confidence,
        budget=budget,
        budget_mean=budget_mean,
        value_per_correct=value_per_correct,
        cost_per_path=cost_per_path,
    )
    terms = make_terms(
        now,
        None,
        wishes.prices,
        volume=volume,
        budget_dollars=budget_dollars,
        pace=pace,
        haste=Haste(max_rounds, p95),
    )
    if terms.tariff is not None and wishes.model is not None:
        terms.tariff.of(wishes.model)  # before anything is drawn
    wanted = Settings(epsilon=epsilon, k_max=cap, seed=wishes.seed, aim=aim, terms=terms)
    job, drawn = sample_as_wished(wishes)
    report(job, drawn, json=False)
    found = analyze_records(
        [open_record(wishes.run, Opening(texts=page is not None))], wanted, out, json=json
    )
    if page is not None:
        write_runs(found, page)
