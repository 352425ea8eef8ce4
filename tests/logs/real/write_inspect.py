"""Write logs with the real inspect_ai, and beside each what its model said; needs inspect_ai.

    python write_inspect.py OUT

The model is a class of our own: it answers each question by a fixed draw, so what every path said is known.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any, ClassVar

from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.log import read_eval_log, write_eval_log
from inspect_ai.model import GenerateConfig, ModelAPI, ModelOutput, ModelUsage, modelapi
from inspect_ai.scorer import Score, accuracy, choice, includes, match, mean, model_graded_qa, scorer
from inspect_ai.solver import TaskState, generate, multiple_choice, solver, system_message

EPOCHS = 3
QUESTIONS = [(f"q{number}", f"What is {number} + {number}?", str(2 * number)) for number in range(3, 8)]


def draw(*parts: object) -> float:
    """Return a number in [0, 1) that is the same on every machine."""
    text = "/".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:6], "big") / 2**48


class Drawer(ModelAPI):
    """Answers the n-th call for a prompt by a draw; grades as a grader of ``model_graded_qa`` would."""

    counts: ClassVar[dict[str, int]] = {}

    async def generate(
        self, input: list[Any], tools: Any, tool_choice: Any, config: GenerateConfig
    ) -> ModelOutput:
        del tools, tool_choice, config
        prompt = input[-1].text
        call = self.counts[prompt] = self.counts.get(prompt, -1) + 1
        text = (
            self.grade(prompt) if "[Criterion]" in prompt or "GRADE" in prompt else self.answer(prompt, call)
        )
        output = ModelOutput.from_content(self.model_name, text)
        said = len(text.split())
        output.usage = ModelUsage(input_tokens=9, output_tokens=said, total_tokens=9 + said)
        return output

    def answer(self, prompt: str, call: int) -> str:
        number = next(int(word) for word in prompt.split() if word.isdigit())
        luck = draw(prompt, call)
        value = 2 * number if luck < 0.15 + 0.08 * number else 2 * number + 1 + int(3 * luck)
        if "ANSWER: $LETTER" in prompt:
            return f"Let me see.\n\nANSWER: {'A' if value == 2 * number else 'B'}"
        if draw("silent", prompt, call) < 0.08:
            return "I would rather not say anything about it today, thank you."
        return f"I add {number} and {number} step by step, one after the other.\nThe answer is {value}"

    def grade(self, prompt: str) -> str:
        submission = prompt.split("[Submission]:")[-1].split("***")[0]
        wanted = prompt.split("[Criterion]:")[-1].split("***")[0].strip()
        return f"Thinking about it.\nGRADE: {'C' if submission.strip().endswith(f'is {wanted}') else 'I'}"


@modelapi(name="drawer")
def drawer() -> type[ModelAPI]:
    return Drawer


@scorer(metrics=[mean()])
def judge() -> Any:
    """A grade from 1 to 10, and no answer."""

    async def score(state: TaskState, target: Any) -> Score:
        return Score(value=9 if state.output.completion.endswith(f"is {target.text}") else 3)

    return score


@scorer(metrics={"right": [accuracy()], "brief": [accuracy()]})
def several() -> Any:
    """Two values in one score."""

    async def score(state: TaskState, target: Any) -> Score:
        right = state.output.completion.endswith(f"is {target.text}")
        return Score(value={"right": int(right), "brief": 0}, answer=state.output.completion.split()[-1])

    return score


@scorer(metrics=[accuracy()])
def partly() -> Any:
    """Grades C, P and I."""

    async def score(state: TaskState, target: Any) -> Score:
        text = state.output.completion
        last = text.split()[-1]
        right = text.endswith(f"is {target.text}")
        return Score(
            value="C" if right else "P" if last.isdigit() else "I", answer=last if last.isdigit() else None
        )

    return score


@solver
def fails_sometimes() -> Any:
    async def solve(state: TaskState, generate: Any) -> TaskState:
        del generate
        if state.sample_id == "q4" and state.epoch == 2:
            raise RuntimeError("the tool broke")
        return state

    return solve


def questions(options: bool = False) -> MemoryDataset:
    return MemoryDataset(
        [
            Sample(
                id=name,
                input=question,
                target="A" if options else answer,
                choices=[answer, str(int(answer) + 1)] if options else None,
            )
            for name, question, answer in QUESTIONS
        ]
    )


CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "match.eval": ({"scorer": match(numeric=True)}, {}),
    "match.json": ({"scorer": match(numeric=True)}, {"log_format": "json"}),
    "includes.eval": ({"scorer": includes()}, {}),
    "graded.eval": ({"scorer": model_graded_qa(model="drawer/grader")}, {}),
    "judge.eval": ({"scorer": judge()}, {}),
    "several.eval": ({"scorer": [several(), match(numeric=True)]}, {}),
    "partly.eval": ({"scorer": partly()}, {}),
    "choice.eval": ({"scorer": choice(), "options": True}, {}),
    "errors.eval": ({"scorer": match(numeric=True), "fails": True}, {"fail_on_error": False}),
    "stopped.eval": (
        {"scorer": match(numeric=True), "fails": True},
        {"fail_on_error": True, "max_samples": 1},
    ),
    "limit.eval": ({"scorer": match(numeric=True)}, {"token_limit": 30}),
}


def without_tracebacks(file: Path) -> None:
    """Write a log again with inspect's own writer, without tracebacks: they name folders of the machine."""
    log = read_eval_log(str(file))
    empty = {"traceback": "", "traceback_ansi": ""}
    for sample in log.samples or []:
        sample.error = sample.error and sample.error.model_copy(update=empty)
        for event in sample.events:
            if event.event == "error":
                event.error = event.error.model_copy(update=empty)
    log.error = log.error and log.error.model_copy(update=empty)
    write_eval_log(log, str(file))


def main(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for name, (parts, how) in CASES.items():
        Drawer.counts.clear()
        steps = [system_message("You are brief.")]
        steps += [fails_sometimes()] if parts.get("fails") else []
        steps += [multiple_choice()] if parts.get("options") else [generate()]
        task = Task(
            dataset=questions(bool(parts.get("options"))),
            solver=steps,
            scorer=parts["scorer"],
            name="sums",
            config=GenerateConfig(temperature=0.6, top_p=0.9, max_tokens=64, stop_seqs=["END"]),
        )
        folder = out / f"tmp-{name}"
        settings = {"log_format": "eval", "max_connections": 1, **how}
        (log,) = eval(
            task,
            model="drawer/toy",
            epochs=EPOCHS,
            log_dir=str(folder),
            display="none",
            log_level="error",
            **settings,
        )
        truth = [
            {
                "id": str(sample.id),
                "epoch": sample.epoch,
                "text": sample.output.completion,
                "target": sample.target,
                "error": sample.error is not None,
            }
            for sample in log.samples or []
        ]
        written = next(folder.glob(f"*{Path(name).suffix}"))
        if parts.get("fails"):
            without_tracebacks(written)
        written.replace(out / f"inspect_{name}")
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
        (out / f"inspect_{name}.truth").write_text(json.dumps({"status": log.status, "samples": truth}))


def write_frame(out: Path) -> None:
    """Write the frame that inspect makes of a log's samples."""
    from inspect_ai.analysis import EvalModel, SampleSummary, samples_df

    frame = samples_df([str(out / "inspect_match.eval")], columns=SampleSummary + EvalModel)
    frame["log"] = frame["log"].map(lambda path: path.rpartition("/")[2])
    frame.to_parquet(out / "inspect_samples_df.parquet")


def write_settled(out: Path) -> None:
    """Write a log whose epochs keff's policy stopped."""
    from keff.integrations.inspect_ai import StopWhenSettled

    Drawer.counts.clear()
    task = Task(
        dataset=questions(),
        solver=generate(),
        scorer=match(numeric=True),
        epochs=12,
        early_stopping=StopWhenSettled("lead_k:2", answer_space="numeric"),
        config=GenerateConfig(max_tokens=64),
    )
    (log,) = eval(
        task,
        model="drawer/toy",
        log_dir=str(out / "settled"),
        display="none",
        max_samples=1,
        log_level="error",
    )
    assert log.status == "success", log.error
    Path(log.location.removeprefix("file://")).replace(out / "inspect_settled.eval")


if __name__ == "__main__":
    for write in (main, write_frame, write_settled):
        write(Path(sys.argv[1]))
