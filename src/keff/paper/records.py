"""The paper's published records: models, benchmarks, files, seeds and settings, read into votes.

Whatever is wrong with them is said at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np

from keff.log import Question
from keff.logs.published import Published, survey
from keff.reading.ballot import ballot
from keff.reading.open import Opening, reading
from keff.records import Note, frozen
from keff.stats.votes import FloatArray, IntArray, Votes

# Names in the files -> names in the paper.
MODELS = {
    "qwen05b": "Qwen-0.5B",
    "qwen7b": "Qwen-7B",
    "qwen32b": "Qwen-32B",
    "llama8b": "Llama-8B",
    "mistral7b": "Mistral-7B",
    "qwen3_5_9b": "Qwen3.5-9B",
}


@frozen
class PaperBenchmark:
    """One row of Table 3: its domain, its name and its answer space there."""

    domain: str
    label: str
    space: str


_TABLE_3 = """
triviaqa      | QA          | TriviaQA   | open text
hotpotqa      | QA          | HotpotQA   | open text
arc_challenge | Sci/MC      | ARC-C      | bounded (4)
mmlu          | Sci/MC      | MMLU       | bounded (4)
hellaswag     | Commonsense | HellaSwag  | bounded (4)
winogrande    | Commonsense | WinoGrande | binary (2)
drop          | NLU         | DROP       | open text
boolq         | NLU         | BoolQ      | binary (y/n)
mbpp          | Code        | MBPP       | code pass/fail
cruxeval      | Code        | CruxEval   | code pass/fail
gsm8k         | Math        | GSM8K      | numeric
math          | Math        | MATH       | numeric
"""
BENCHMARKS = {
    name: PaperBenchmark(*labels)
    for name, *labels in (map(str.strip, line.split("|")) for line in _TABLE_3.strip().splitlines())
}
# In the order of Table 8.
DOMAINS = ("QA", "Sci/MC", "Commonsense", "NLU", "Code", "Math")

# What follows a model in the name of a matrix file -> the tasks of that file.
SUFFIXES = {
    "": ("gsm8k", "math"),
    "_qa": ("hotpotqa",),
    "_triviaqa": ("triviaqa",),
    "_arc": ("arc_challenge",),
    "_mmlu": ("mmlu",),
    "_mbpp": ("mbpp",),
    "_cruxeval": ("cruxeval",),
    "_hellaswag": ("hellaswag",),
    "_winogrande": ("winogrande",),
    "_boolq": ("boolq",),
    "_drop": ("drop",),
}
# The reasoning model is no part of the matrix.
MATRIX_MODELS = ("qwen05b", "qwen7b", "qwen32b", "llama8b", "mistral7b")
# The paper's five seeds, by which its files are named.
SEEDS = (42, 123, 456, 789, 1024)
SC, PT = "sc", "sc_prompttpl"

# Paths per instance of the saturation study.
SATURATION_K = 32
# Instances per seed of the saturation study.
SATURATION_INSTANCES = 100
# Paths per instance of the model-by-task matrix.
MATRIX_K = 8
# Instances per seed of the model-by-task matrix.
MATRIX_INSTANCES = 50
# Token limit of the model-by-task matrix.
MATRIX_TOKENS = 2048
# The same for every path of the paper.
SAMPLING = {"temperature": 0.7, "top_p": 0.95}

# Rows of the SC and the PT arm where they are not 250.
PARTIAL = {
    ("qwen7b", "math"): (226, 100),
    ("qwen32b", "math"): (235, 100),
    ("llama8b", "math"): (250, 201),
    ("qwen7b", "mmlu"): (250, 124),
    ("qwen32b", "mmlu"): (250, 158),
    ("qwen7b", "mbpp"): (250, 223),
}


@frozen
class Series:
    """One saturation file: model, task, seeds, and a path's token limit."""

    model: str
    task: str
    seeds: tuple[int, ...]
    max_new_tokens: int
    folder: str = "sc_records"

    @property
    def file(self) -> str:
        """The file's path within the folder of records."""
        return f"{self.folder}/{self.model}_sc_kvar_v2_{self.task}.jsonl"

    @property
    def name(self) -> str:
        """Model and task, such as ``qwen7b/gsm8k``."""
        return f"{self.model}/{self.task}"


REASONING = Series("qwen3_5_9b", "gsm8k", SEEDS[:3], 16384, "reasoning_records")
# In the order of Table 4.
SERIES = (
    Series("qwen7b", "gsm8k", SEEDS, 1024),
    Series("llama8b", "gsm8k", SEEDS, 1024),
    Series("mistral7b", "gsm8k", SEEDS, 1024),
    Series("llama8b", "hotpotqa", SEEDS[:3], 512),
    Series("llama8b", "boolq", SEEDS[:3], 256),
)

# What the authors computed from the saturation files: ours must agree with it.
REFERENCE = "reference/kvar_v2_exact_k.csv"


def matrix_files() -> list[tuple[str, str, tuple[str, ...]]]:
    """Return (file, model, tasks) of the 55 matrix files."""
    return [
        (f"capability_matrix/{model}_capgated{suffix}.jsonl", model, tasks)
        for model in MATRIX_MODELS
        for suffix, tasks in SUFFIXES.items()
    ]


@dataclass(frozen=True, slots=True, eq=False)
class ArmSample:
    """One arm of one cell: votes, each row's seed, and its answer diversity where known.

    ``diversity`` [n, K] is that of the first 1..K paths of each row. ``truncated`` is the share of paths that
    were cut at the token limit, where the record says so.

    Clusters of ``votes`` are instances, numbered by ``names``: the same instance under another seed, or in
    the other arm, has the same number there.
    """

    votes: Votes
    seeds: IntArray
    names: tuple[str, ...]
    diversity: FloatArray | None
    truncated: float | None = None


# The parts of one file that could be read, by ``task/method``, and what is wrong with it.
Loaded: TypeAlias = tuple[dict[str, ArmSample], list[str]]


def load_series(root: Path, series: Series) -> Loaded:
    """Return one saturation file's votes, its shape, seeds and settings checked."""
    wanted = {f"{series.task}/{SC}": (SATURATION_INSTANCES, series.seeds)}
    settings = {**SAMPLING, "max_new_tokens": series.max_new_tokens}
    return _load(root, series.file, SATURATION_K, wanted, settings)


def load_matrix(root: Path, file: str, model: str, tasks: Sequence[str]) -> Loaded:
    """Return both arms of each task of one matrix file."""
    wanted: dict[str, tuple[int | None, tuple[int, ...]]] = {}
    for task in tasks:
        partial = PARTIAL.get((model, task), (250, 250))
        for method, rows in zip((SC, PT), partial, strict=True):
            full = MATRIX_INSTANCES if rows == len(SEEDS) * MATRIX_INSTANCES else None
            wanted[f"{task}/{method}"] = (full, SEEDS)
    settings = {**SAMPLING, "max_new_tokens": MATRIX_TOKENS}
    return _load(root, file, MATRIX_K, wanted, settings)


def align(first: ArmSample, second: ArmSample) -> tuple[ArmSample, ArmSample]:
    """Return both arms with common instance numbers."""
    table = {name: code for code, name in enumerate(dict.fromkeys((*first.names, *second.names)))}
    names = tuple(table)

    def renumbered(sample: ArmSample) -> ArmSample:
        codes = np.array([table[name] for name in sample.names], np.int64)
        votes = sample.votes
        moved = Votes(votes.answers, votes.correct, votes.slots, codes[votes.cluster_ids], votes.tokens)
        return ArmSample(moved, sample.seeds, names, sample.diversity)

    return renumbered(first), renumbered(second)


def _load(
    root: Path,
    file: str,
    k: int,
    wanted: Mapping[str, tuple[int | None, tuple[int, ...]]],
    settings: Mapping[str, Any],
) -> Loaded:
    path = root / file
    refusal = Published().refuses(path)
    if refusal is not None:
        return {}, [f"{path}: {refusal}"]
    torn: list[Note] = []
    questions, provenances, problems = survey(path, torn.append)
    if problems:
        return {}, [*problems, f"{path}: not used, because it has bad lines"]
    problems += [note.message for note in torn]
    problems += [
        f"{path}: provenance says {name} {said[name]!r}, the paper used {value!r}"
        for said in provenances
        for name, value in settings.items()
        if said.get(name, value) != value
    ]
    parts: dict[str, ArmSample] = {}
    by_part: dict[str, list[Question]] = {}
    for question in questions:
        by_part.setdefault(question.part, []).append(question)
    for part, rows in by_part.items():
        if part not in wanted:
            problems.append(f"{path}: the part {part} is not one of the paper's ({', '.join(wanted)})")
        elif {len(row.answers) for row in rows} != {k}:
            problems.append(f"{path}: {part} must have K={k} in every line: not used")
        else:
            problems += _check_shape(path, part, rows, *wanted[part])
            parts[part] = _sample(path, rows, with_answers=k == SATURATION_K)
    problems += [f"{path}: the part {part} is missing" for part in wanted if part not in by_part]
    return parts, problems


def _check_shape(
    path: Path, part: str, rows: Sequence[Question], instances: int | None, seeds: tuple[int, ...]
) -> list[str]:
    counts = Counter(cast("int", row.meta["seed"]) for row in rows)
    if set(counts) - set(seeds) or (instances is not None and set(seeds) - set(counts)):
        return [f"{path}: {part} has the seeds {sorted(counts)}, the paper's are {sorted(seeds)}"]
    if instances is None:
        return []
    wrong = {seed: count for seed, count in counts.items() if count != instances}
    return [
        f"{path}: {part} has {count} instances under seed {seed}, not {instances}"
        for seed, count in wrong.items()
    ]


def _sample(path: Path, rows: Sequence[Question], *, with_answers: bool) -> ArmSample:
    table = {name: code for code, name in enumerate(dict.fromkeys(row.cluster for row in rows))}
    if with_answers:
        votes = ballot([cut_is_wrong(row) for row in rows], reading(Published().info(path), Opening())).votes
    else:
        correct = np.array([row.correct for row in rows], np.int64)
        slots = None if rows[0].slots is None else np.array(rows[0].slots, np.int64)
        clusters = np.array([table[row.cluster] for row in rows], np.int64)
        votes = Votes(None, correct, slots, clusters)
    return arm_sample(votes, rows)


def arm_sample(votes: Votes, rows: Sequence[Question]) -> ArmSample:
    """Return one arm's sample, from votes and their questions."""
    seeds = np.array([row.meta["seed"] for row in rows], np.int64)
    names = tuple(dict.fromkeys(row.cluster or row.id for row in rows))
    cuts = [cut for row in rows for cut in (row.truncated or ())[: votes.k]]
    return ArmSample(votes, seeds, names, diversity(rows, votes.k), sum(cuts) / len(cuts) if cuts else None)


def cut_is_wrong(row: Question) -> Question:
    """Return a question in which truncated paths are wrong and abstain.

    They must be both: an answer that votes while it counts as wrong makes a plurality worse than the majority
    of the same paths.
    """
    cuts = row.truncated or ()
    if not any(cuts):
        return row

    def uncut(values: Sequence[Any] | None, blank: Any) -> Any:
        return values and tuple(blank if cut else value for value, cut in zip(values, cuts, strict=True))

    return replace(
        row, answers=uncut(row.answers, None), keys=uncut(row.keys, None), correct=uncut(row.correct, 0)
    )


def diversity(rows: Sequence[Question], k: int) -> FloatArray | None:
    """Return the paper's answer diversity of each row [n, k]: distinct lower-case answers over paths.

    Column j is that of the first j + 1 paths, since it falls with their number.
    """
    if any(row.form == "scores" for row in rows):
        return None
    counts = np.zeros((len(rows), k))
    for place, row in enumerate(rows):
        known: set[str] = set()
        for path, answer in enumerate(row.answers[:k]):
            known |= {answer.lower()} if answer else set()
            counts[place, path] = len(known)
    return counts / np.arange(1, k + 1)
