"""Write logs with the real lm-evaluation-harness: run in an environment that has it.

    python write_lm_eval.py OUT

Its local chat completions are asked of a stub server in this process, whose answers are a fixed draw; what it
said is written beside the logs.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path

from chat_server import served

REPEATS = 4
QUESTIONS = [
    {"question": f"What is {number} + {number}?", "answer": f"It doubles.\n#### {2 * number}"}
    for number in range(3, 11)
]
CHOICES = [
    {
        "question": f"Which is {number} + {number}?",
        "options": [str(2 * number + 1), str(2 * number)],
        "label": 1,
    }
    for number in range(3, 11)
]
SUMS = """
task: gsm8k_toy
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/sums.jsonl}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{question}}}}"
doc_to_target: "{{{{answer}}}}"
repeats: 4
generation_kwargs: {{until: ["Q:"], do_sample: true, temperature: 0.6, top_p: 0.9, max_gen_toks: 64}}
metric_list: [{{metric: exact_match, aggregation: mean, higher_is_better: true}}]
filter_list:
  - name: first
    filter: [{{function: regex, regex_pattern: "is (\\\\d+)"}}, {{function: take_first}}]
  - name: maj
    filter: [{{function: regex, regex_pattern: "is (\\\\d+)"}}, {{function: majority_vote}}, {{function:
    take_first}}]
"""
LETTERS = """
task: letters_toy
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/choices.jsonl}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{question}}}} A. {{{{options[0]}}}} B. {{{{options[1]}}}}"
doc_to_choice: ["A", "B"]
doc_to_target: label
repeats: 4
generation_kwargs: {{until: ["Q:"], do_sample: true, temperature: 0.6}}
metric_list: [{{metric: exact_match, aggregation: mean, higher_is_better: true}}]
filter_list:
  - name: first
    filter: [{{function: regex, regex_pattern: "is ([AB])"}}, {{function: take_first}}]
"""

COUNTS: Counter[str] = Counter()
SAID: list[dict[str, str]] = []
LOCK = threading.Lock()


def answer(prompt: str) -> str:
    """Return the next answer for a prompt."""
    with LOCK:
        call = COUNTS[prompt]
        COUNTS[prompt] += 1
    digest = hashlib.sha256(f"{prompt}/{call}".encode()).digest()
    luck = int.from_bytes(digest[:6], "big") / 2**48
    number = next(int(word) for word in prompt.split() if word.isdigit())
    right = luck < 0.15 + 0.08 * number
    if "A." in prompt:
        text = f"I compare the two.\nThe answer is {'B' if right else 'A'}"
    else:
        text = f"I add them up.\nThe answer is {2 * number if right else 2 * number + 1 + int(3 * luck)}"
    with LOCK:
        SAID.append({"prompt": prompt, "text": text})
    return text


def main(out: Path) -> None:
    from lm_eval import simple_evaluate
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    out.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as scratch,
        served(lambda body: {"content": answer(body["messages"][-1]["content"])}) as base,
    ):
        folder = Path(scratch)
        for name, rows in (("sums", QUESTIONS), ("choices", CHOICES)):
            (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (folder / "sums.yaml").write_text(SUMS.format(folder=folder))
        (folder / "letters.yaml").write_text(LETTERS.format(folder=folder))
        tracker = EvaluationTracker(output_path=str(out))
        results = simple_evaluate(
            model="local-chat-completions",
            model_args={
                "model": "toy/model",
                "base_url": f"{base}/chat/completions",
                "num_concurrent": 1,
                "tokenizer_backend": None,
            },
            tasks=["gsm8k_toy", "letters_toy"],
            task_manager=TaskManager(include_path=str(folder), include_defaults=False),
            apply_chat_template=True,
            log_samples=True,
            evaluation_tracker=tracker,
            bootstrap_iters=0,
            system_instruction="You are brief.",
        )
        samples = results.pop("samples")
        tracker.save_results_aggregated(results=results, samples=samples)
        for task in results["configs"]:
            tracker.save_results_samples(task_name=task, samples=samples[task])
    (out / "lm_eval.truth").write_text(json.dumps(SAID))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
