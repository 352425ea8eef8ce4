"""Draw K paths an item into a run folder; resumes.

Raising n or K later keeps what is there.
"""

from __future__ import annotations

from keff.cli import _options as o
from keff.cli._preflight import sample_as_wished
from keff.cli._sampling import Wishes, report


def command(
    task: o.TaskName,
    run: o.RunFolder,
    engine: o.EngineName = "openai",
    model: o.Model = None,
    base_url: o.BaseUrl = None,
    engine_option: o.EngineOptions = None,
    n: o.N = None,
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
    policy: o.PolicyText = None,
    concurrency: o.Concurrency = None,
    on: o.On = None,
    workers: o.Workers = None,
    shard: o.Shard = None,
    token_budget: o.TokenBudget = None,
    max_cost: o.MaxCost = None,
    prices: o.Prices = None,
    yes: o.Yes = False,
    keep_going: o.KeepGoing = False,
    json: o.Json = False,
) -> None:
    """Draw what the run still owes."""
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
        policy=policy,
        concurrency=concurrency,
        on=on,
        workers=workers,
        shard=shard,
        token_budget=token_budget,
        max_cost=max_cost,
        prices=prices,
        yes=yes,
        keep_going=keep_going,
    )
    job, drawn = sample_as_wished(wishes)
    report(job, drawn, json=json)
