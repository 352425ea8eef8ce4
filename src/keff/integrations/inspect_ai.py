"""inspect_ai: a solver that votes, a reducer, metrics over epochs, and early stopping of epochs.

    Task(..., solver=self_consistency("lead_k:3", answer_space="numeric"))
    Task(..., epochs=Epochs(8, plurality("numeric")), metrics=[accuracy(), k_eff(), run_to_run_sd()])
    Task(..., epochs=16, early_stopping=StopWhenSettled("lead_k:3", answer_space="numeric"))

inspect_ai finds them by name too, such as ``keff/self_consistency``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from string import ascii_uppercase
from typing import Any

import numpy as np

from keff.analysis.early_stopping import StopWhenSettled
from keff.analysis.front import k_eff as worth
from keff.analysis.front import noise
from keff.analysis.results.scores import Noise
from keff.answers import LETTERS, Space, choice_of, of_unknown_options
from keff.errors import UsageError
from keff.gateway.vote.extraction import reader_of
from keff.gateway.vote.request_policy import terms_of
from keff.narrow import Fields
from keff.plan import Plan
from keff.plugins import import_extra
from keff.policy import Policy, confidence_of, for_one_model, parse_policy
from keff.policy.weighting import LOGPROBS
from keff.sampling.consistency import PathsOfQuestion, vote

__all__ = ["StopWhenSettled", "k_eff", "plurality", "run_to_run_sd", "self_consistency"]

scorer: Any = import_extra("inspect_ai.scorer", "keff.integrations.inspect_ai")
solver: Any = import_extra("inspect_ai.solver", "keff.integrations.inspect_ai")


@solver.solver
def self_consistency(
    policy: str | None = None,
    plan: str | None = None,
    answer_space: str | None = None,
    path: Any = None,
    seed: int | None = None,
) -> Any:
    """Return a solver that draws paths as a policy asks, and goes on with the first that has their answer.

    ``plan`` is the file of a plan: its policy, answer space and sampling; ``policy`` and ``answer_space``
    replace them. Every path is a copy of the sample's state solved by ``path``, a solver (default:
    ``generate``, past inspect_ai's cache; with a ``seed`` every path has its own). The vote stands in the
    metadata of the sample, under ``keff``. Raises UsageError where nothing says how answers are read,
    PolicyError and PlanError for what cannot be used here.
    """
    known = None if plan is None else Plan.read(plan)
    rule = _policy(policy, known)
    space = _space(answer_space, known)
    sampling = _sampling(known) | ({"logprobs": True} if "confidence" in rule.needs else {})

    def path_at(index: int) -> Any:
        own = {} if seed is None else {"seed": seed + index}
        return solver.generate(cache=False, **sampling, **own) if path is None else path

    async def solve(state: Any, generate: Any) -> Any:
        del generate
        solved = dict[int, Any]()

        async def draw(index: int) -> Fields:
            solved[index] = await solver.fork(state, path_at((state.epoch - 1) * rule.cap + index))
            return _response(solved[index].output)

        found, places = await PathsOfQuestion(draw, rule, _with_labels(space, state)).run()
        votes = Counter(key for key in found.keys if key is not None)
        place = 0 if found.answer is None else found.keys.index(found.answer)
        chosen = solved[places[place]]
        chosen.metadata["keff"] = {
            "policy": rule.spec,
            "answer": found.answer,
            "votes": dict(votes.most_common()),
            "paths": len(found.keys),
            "abstentions": found.verdict.abstentions,
            "repeated": found.repeated,
            "cancelled": found.cancelled,
            "stop_reason": found.verdict.reason,
            "stale_plan": [] if known is None else _other_model(known, state.model.name),
        }
        return chosen

    return solve


@scorer.score_reducer
def plurality(answer_space: str = "exact") -> Any:
    """Return a reducer of epochs: the score of the first epoch that gave the answer of most of them.

    Answers are those of the scorer, compared in an answer space; of answers that tie the first wins. Where no
    epoch has an answer the first epoch's score is taken.
    """

    def reduce(scores: list[Any]) -> Any:
        won = vote([score.answer for score in scores], answer_space)
        keys = [
            None if score.answer is None else vote([score.answer], answer_space).answer for score in scores
        ]
        told = {"answer": won.answer, "share": won.weight, "paths": won.paths, "abstentions": won.abstentions}
        first = scores[0 if won.answer is None else keys.index(won.answer)]
        return first.model_copy(update={"metadata": {**(first.metadata or {}), "keff": told}})

    return reduce


@scorer.metric(scores="unreduced")
def k_eff() -> Any:
    """Return a metric: the number of independent answers that the epochs of a question are worth."""
    return _of_epochs(lambda found: float("nan") if found.c is None else worth(found.k, found.c).value)


@scorer.metric(scores="unreduced")
def run_to_run_sd() -> Any:
    """Return a metric: the standard deviation of the score of one epoch on these questions."""
    return _of_epochs(
        lambda found: float("nan") if found.run_to_run_sd is None else found.run_to_run_sd.value
    )


def _of_epochs(figure: Callable[[Noise], float]) -> Any:
    number = scorer.value_to_float()

    def metric(scores: Sequence[Any]) -> float:
        rows = defaultdict[object, list[float]](list)
        for each in scores:
            value = number(each.score.value)
            if not np.isnan(value):
                rows[each.sample_id].append(value)
        return figure(noise(list(rows.values()))) if rows else float("nan")

    return metric


def _policy(policy: str | None, plan: Plan | None) -> Policy:
    if plan is not None and plan.branches:
        raise UsageError("the plan asks several models or prompts: serve it with keff serve --plan")
    if policy is None and plan is None:
        raise UsageError("say what to draw: self_consistency('lead_k:3', ...), or plan='plan.json'")
    rule = parse_policy(policy or str(plan and plan.policy), plan and plan.calibrations)
    for_one_model(rule, "an evaluation")
    if (name := confidence_of(rule)) is not None and name not in LOGPROBS:
        raise UsageError(f"{rule.spec} reads {name}, and an evaluation has log-probabilities only")
    return rule


def _space(answer_space: str | None, plan: Plan | None) -> Space:
    if answer_space is not None:
        return of_unknown_options(answer_space)
    if plan is None:
        raise UsageError("say how answers are read: answer_space='numeric' (or choice, math, json, ...)")
    reader = reader_of(plan)
    if reader.regex is not None or reader.task is not None:
        raise UsageError("the plan's answers were read by a task of its own: set answer_space")
    return reader.space


def _with_labels(space: Space, state: Any) -> Space:
    """Return the answer space with the letters of a sample's choices, where it has some."""
    if space.name != "choice" or getattr(space, "labels", None) != LETTERS:
        return space
    letters = tuple(ascii_uppercase[: len(state.choices)])
    return choice_of(letters) if letters else of_unknown_options("choice", state.input_text)


def _sampling(plan: Plan | None) -> dict[str, Any]:
    """Return a plan's sampling in inspect_ai's words."""
    terms = None if plan is None else terms_of(plan)
    if terms is None or not terms.known:
        return {}
    names = {"temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "stop": "stop_seqs"}
    stated = {names[name]: value for name, value in terms.fields.items() if name in names}
    return stated | ({} if terms.length is None else {"max_tokens": terms.length})


def _other_model(plan: Plan, model: str) -> list[str]:
    names = terms_of(plan).names
    # Here a name begins with those of the provider and its service.
    return ["model"] if names and not any(f"/{model}".endswith(f"/{name}") for name in names) else []


def _response(output: Any) -> Fields:
    """Return the output of a path as a chat response."""
    usage, choice = output.usage, output.choices[0]
    return {
        "id": output.response_id,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": output.completion},
                "finish_reason": choice.stop_reason,
                "logprobs": None if choice.logprobs is None else choice.logprobs.model_dump(),
            }
        ],
        "usage": usage and {"prompt_tokens": usage.input_tokens, "completion_tokens": usage.output_tokens},
    }
