"""Records in the paper's published layout, made from known accuracies and correlations."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from keff.paper import records
from keff.paper.records import Series

TRACE = "First we add the two numbers, and then we divide by the number of boxes that are left over. "
GOLD = {"boolq": "yes", "gsm8k": "18", "math": "18", "hotpotqa": "Chief of Protocol"}
WRONG = {
    "boolq": ["no"],
    "gsm8k": ["17", "19", "1,800", "9"],
    "math": ["17", "19", r"\frac{1}{2}"],
    "hotpotqa": ["ambassador", "Kansas City", "a senator", "VIVA Media"],
}


@dataclass(frozen=True)
class Truth:
    """What a series is drawn from: accuracy, correlation, share of paths without an answer, trace length."""

    p: float
    c: float
    silent: float = 0.02
    trace: int = 1200


def thetas(n: int, truth: Truth, rng: np.random.Generator) -> np.ndarray:
    """Return the accuracy of each of n instances: Beta with mean p and intraclass correlation c."""
    size = (1 - truth.c) / truth.c
    return rng.beta(truth.p * size, (1 - truth.p) * size, n)


def series_rows(
    series: Series, truth: Truth, rng: np.random.Generator, instances: int = records.SATURATION_INSTANCES
) -> Iterator[dict[str, Any]]:
    """Yield the lines of one saturation file; an instance keeps its accuracy under every seed."""
    chance = thetas(instances, truth, rng)
    gold, wrong, k = GOLD[series.task], WRONG[series.task], records.SATURATION_K
    trace = (TRACE * (truth.trace // len(TRACE) + 1))[: truth.trace]
    for seed in series.seeds:
        for instance in range(instances):
            right = rng.random(k) < chance[instance]
            others = rng.choice(wrong, k)
            silent = (rng.random(k) < truth.silent) & ~right
            answers = [
                gold if one else None if mute else str(other)
                for one, mute, other in zip(right, silent, others, strict=True)
            ]
            yield {
                "model_slug": series.model,
                "method": "sc",
                "task": series.task,
                "K": k,
                "seed": seed,
                "instance_id": f"{series.task}_{instance}",
                "gold_answer": gold,
                "all_answers": answers,
                "all_traces": [f"{trace} The answer is {answer}.\n" for answer in answers],
                "gen_lens": rng.integers(200, 400, k).tolist(),
                "truncated": [bool(one) for one in silent],
                "max_new_tokens": series.max_new_tokens,
                "provenance": provenance(series.max_new_tokens, scorer(series.task)),
            }


def provenance(tokens: int, name: str) -> dict[str, Any]:
    return {
        "model_id": "example/model",
        "max_new_tokens": tokens,
        "temperature": 0.7,
        "top_p": 0.95,
        "script_version": "kvar_v2",
        "scorer": name,
    }


def scorer(task: str) -> str:
    return {
        "gsm8k": "gsm8k_numeric",
        "hotpotqa": "hotpotqa_token_f1",
        "boolq": "boolq_yesno",
        "math": "math500_canonical_exact",
    }[task]


def matrix_rows(
    task: str, rows: tuple[int, int], rho: tuple[float, float], rng: np.random.Generator, spread: float = 0.3
) -> Iterator[dict[str, Any]]:
    """Yield both arms of one cell.

    Gaussian scores with latent correlations ``rho``, slots apart by ``spread``.
    """
    for method, count, latent in zip((records.SC, records.PT), rows, rho, strict=True):
        k, instances = records.MATRIX_K, records.MATRIX_INSTANCES
        shift = np.zeros(k) if method == records.SC else rng.normal(0, spread, k)
        thresholds = ndtri(np.clip(0.55 + 0 * shift, 0.01, 0.99)) + shift
        common = rng.normal(size=instances)
        written = 0
        for seed in records.SEEDS:
            for instance in range(instances):
                if written == count:
                    return_now = True
                    break
                score = thresholds + np.sqrt(latent) * common[instance]
                right = rng.random(k) < ndtr(score / np.sqrt(1 - latent))
                written += 1
                yield _matrix_line(task, method, seed, instance, right, rng)
            else:
                return_now = False
            if return_now:
                break


def _matrix_line(
    task: str, method: str, seed: int, instance: int, right: np.ndarray, rng: np.random.Generator
) -> dict[str, Any]:
    line: dict[str, Any] = {
        "task": task,
        "method": method,
        "seed": seed,
        "instance_id": f"{task}_{instance}",
        "K": records.MATRIX_K,
        "gold_answer": GOLD.get(task, "A"),
    }
    if task in ("mbpp", "cruxeval"):
        return line | {"all_correct": right.astype(int).tolist()}
    if task in ("hotpotqa", "triviaqa", "drop"):
        f1 = np.where(right, rng.uniform(0.5, 1, right.size), rng.uniform(0, 0.49, right.size))
        guesses = rng.integers(0, 9, right.size)
        answers = ["span" if one else f"Guess {guess}" for one, guess in zip(right, guesses, strict=True)]
        return line | {"all_f1s": f1.tolist(), "all_answers": answers}
    wrong = WRONG.get(task, ["B", "C", "D"])
    return line | {"all_answers": [line["gold_answer"] if one else str(rng.choice(wrong)) for one in right]}


def write(path: Path, rows: Iterator[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


TRUTHS = {
    "qwen7b/gsm8k": Truth(0.79, 0.59),
    "llama8b/gsm8k": Truth(0.77, 0.5),
    "mistral7b/gsm8k": Truth(0.43, 0.45),
    "llama8b/hotpotqa": Truth(0.5, 0.6),
    "llama8b/boolq": Truth(0.79, 0.79),
    "qwen3_5_9b/gsm8k": Truth(0.93, 0.36, 0.05, 12_000),
}


def write_all(root: Path, seed: int = 0, trace: int | None = None) -> None:
    """Write the complete set of files, full size unless ``trace`` shortens the traces."""
    for place, series in enumerate((*records.SERIES, records.REASONING)):
        truth = TRUTHS[series.name]
        if trace is not None:
            truth = Truth(truth.p, truth.c, truth.silent, trace)
        write(root / series.file, series_rows(series, truth, np.random.default_rng([seed, place])))
    for place, (file, model, tasks) in enumerate(records.matrix_files()):
        rng = np.random.default_rng([seed, 99, place])
        rows = (
            row
            for task in tasks
            for row in matrix_rows(task, records.PARTIAL.get((model, task), (250, 250)), (0.75, 0.5), rng)
        )
        write(root / file, rows)
