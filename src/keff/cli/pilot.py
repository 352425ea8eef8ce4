"""Sample a pilot (100 items x 8 paths), then analyze it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from keff.analysis import Settings
from keff.cli import _options as o
from keff.cli._page import write_report
from keff.cli._preflight import sample_as_wished
from keff.cli._sampling import Wishes, report
from keff.cli.analyze import analyze_records, make_aim
from keff.reader import Opening, open_record


def command(
    task: o.TaskName,
    run: o.RunFolder,
    engine: o.EngineName = "openai",
    model: o.Model = None,
    base_url: o.BaseUrl = None,
    engine_option: o.EngineOptions = None,
    n: o.N = 100,
    k: o.K = 8,
    seed: o.Seed = 0,
    temperature: o.Temperature = 0.7,
    top_p: o.TopP = 0.95,
    max_tokens: o.MaxTokens = None,
    templates: o.Templates = "none",
    data: o.Data = None,
    answer_space: o.AnswerSpaceName = None,
    system: o.System = None,
    template: o.TemplateFile = None,
    answer_regex: o.AnswerRegex = None,
    scorer: o.Scorer = None,
    task_option: o.TaskOptions = None,
    unsafe_exec: o.UnsafeExec = False,
    concurrency: o.Concurrency = None,
    on: o.On = None,
    workers: o.Workers = None,
    token_budget: o.TokenBudget = None,
    max_cost: o.MaxCost = None,
    prices: o.Prices = None,
    yes: o.Yes = False,
    keep_going: o.KeepGoing = False,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Write the plan (plan.json) here.")] = None,
    page: Annotated[Path | None, typer.Option("--report", help="Write the report page here.")] = None,
    epsilon: o.Epsilon = 0.025,
    k_max: o.KMax = 32,
    retain: o.Retain = None,
    budget: o.Budget = None,
    value_per_correct: o.ValuePerCorrect = None,
    cost_per_path: o.CostPerPath = None,
    json: o.Json = False,
) -> None:
    """Draw what the pilot still owes and analyse it."""
    aim = make_aim(retain, budget, value_per_correct, cost_per_path)
    settings = Settings(epsilon=epsilon, k_max=k_max, seed=seed, aim=aim)
    wishes = Wishes(
        task=task,
        run=run,
        engine=engine,
        model=model,
        base_url=base_url,
        engine_option=engine_option,
        n=n,
        k=k,
        seed=seed,
        temperature=temperature,
        top_p=top_p,
        max_tokens=max_tokens,
        templates=templates,
        data=data,
        answer_space=answer_space,
        system=system,
        template=template,
        answer_regex=answer_regex,
        scorer=scorer,
        task_option=task_option,
        unsafe_exec=unsafe_exec,
        concurrency=concurrency,
        on=on,
        workers=workers,
        token_budget=token_budget,
        max_cost=max_cost,
        prices=prices,
        yes=yes,
        keep_going=keep_going,
    )
    job, drawn = sample_as_wished(wishes)
    report(job, drawn, json=False)
    found = analyze_records([open_record(run, Opening(texts=page is not None))], settings, out, json=json)
    if page is not None:
        write_report(found, page)
