"""Sample K paths an item into a run folder; resumes, and raising n or K keeps what is there."""

from __future__ import annotations

from keff.cli import _options as o
from keff.cli._sampling import Wishes, draw, report


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
    policy: o.PolicyText = None,
    concurrency: o.Concurrency = None,
    json: o.Json = False,
) -> None:
    """Draw what the run still owes."""
    job = Wishes(
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
        policy=policy,
        concurrency=concurrency,
    ).job()
    report(job, draw(job), json=json)
