"""What the paper measured: models, benchmarks, files, seeds and settings of its published records."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

MODELS = {
    "qwen05b": "Qwen-0.5B",
    "qwen7b": "Qwen-7B",
    "qwen32b": "Qwen-32B",
    "llama8b": "Llama-8B",
    "mistral7b": "Mistral-7B",
    "qwen3_5_9b": "Qwen3.5-9B",
}


@dataclass(frozen=True, slots=True)
class PaperBenchmark:
    """One row of Table 3: its domain, its name and its answer space there."""

    domain: str
    label: str
    space: str


BENCHMARKS = {
    "triviaqa": PaperBenchmark("QA", "TriviaQA", "open text"),
    "hotpotqa": PaperBenchmark("QA", "HotpotQA", "open text"),
    "arc_challenge": PaperBenchmark("Sci/MC", "ARC-C", "bounded (4)"),
    "mmlu": PaperBenchmark("Sci/MC", "MMLU", "bounded (4)"),
    "hellaswag": PaperBenchmark("Commonsense", "HellaSwag", "bounded (4)"),
    "winogrande": PaperBenchmark("Commonsense", "WinoGrande", "binary (2)"),
    "drop": PaperBenchmark("NLU", "DROP", "open text"),
    "boolq": PaperBenchmark("NLU", "BoolQ", "binary (y/n)"),
    "mbpp": PaperBenchmark("Code", "MBPP", "code pass/fail"),
    "cruxeval": PaperBenchmark("Code", "CruxEval", "code pass/fail"),
    "gsm8k": PaperBenchmark("Math", "GSM8K", "numeric"),
    "math": PaperBenchmark("Math", "MATH", "numeric"),
}
# In the order of Table 8.
DOMAINS = ("QA", "Sci/MC", "Commonsense", "NLU", "Code", "Math")

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


@dataclass(frozen=True, slots=True)
class Series:
    """One saturation file: model, task, seeds, and the token limit of a path."""

    model: str
    task: str
    seeds: tuple[int, ...]
    max_new_tokens: int
    folder: str = "sc_records"

    @property
    def file(self) -> str:
        """The file's path below the folder of records."""
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

REFERENCE = "reference/kvar_v2_exact_k.csv"


def matrix_file(model: str, suffix: str) -> str:
    """Return a matrix file's path below the folder of records."""
    return f"capability_matrix/{model}_capgated{suffix}.jsonl"


def matrix_files() -> list[tuple[str, str, tuple[str, ...]]]:
    """Return (file, model, tasks) of the 55 matrix files."""
    return [
        (matrix_file(model, suffix), model, tasks)
        for model in MATRIX_MODELS
        for suffix, tasks in SUFFIXES.items()
    ]


def find(root: Path, file: str) -> Path | None:
    """Return where a file of the records is, or None."""
    path = root / file
    return path if path.is_file() else None
