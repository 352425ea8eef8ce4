"""The prompt templates are those of the paper, and users can bring their own."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest

from keff import plugins
from keff.errors import TaskError
from keff.records import Item
from keff.tasks._templates import family, read_templates

FACTS = Path(__file__).resolve().parents[1] / "data" / "paper.json"
FAMILIES = {
    "Math tasks (GSM8K, MATH)": "math",
    "QA tasks (HotpotQA, TriviaQA)": "qa",
    "Science/MC tasks (ARC-Challenge, MMLU)": "science",
    "Code generation (MBPP)": "code",
    "Code understanding (CruxEval)": "output",
    "Commonsense (HellaSwag)": "continuation",
    "Commonsense (WinoGrande)": "blank",
    "Reading comprehension (BoolQ)": "passage",
    "Discrete reasoning (DROP)": "discrete",
}


def test_all_72_templates_are_those_of_the_papers_appendix() -> None:
    quoted = json.loads(FACTS.read_text("utf-8"))["templates"]
    assert list(quoted) == list(FAMILIES)
    for title, name in FAMILIES.items():
        own = [sha256(template.encode()).hexdigest() for template in family(name)]
        assert own == quoted[title] and len(own) == 8


def test_templates_of_the_user(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text('templates = ["Think.", "Here is a riddle:\\n{question}\\nSolve it."]')
    task = plugins.load("task", "gsm8k", template=str(file))
    item = task.to_item({"question": "How many {x}?", "answer": "#### 3"})
    first, whole = (task.messages(item, slot)[0]["content"] for slot in range(2))
    assert first.startswith("Think.\n\nHow many {x}?\n\nEnd with")
    assert whole == "Here is a riddle:\nHow many {x}?\nSolve it."
    with pytest.raises(TaskError, match="gsm8k has the slots 0 to 1, not 2"):
        task.messages(item, 2)


@pytest.mark.parametrize(
    "content", ["", "templates = []", 'templates = "x"', "templates = [1]", "templates = ["]
)
def test_a_template_file_of_another_form(content: str, tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(content)
    with pytest.raises(TaskError, match=r"own\.toml: "):
        read_templates(file)
    with pytest.raises(TaskError, match=r"gone\.toml: "):
        read_templates(tmp_path / "gone.toml")


def test_items_hold_the_bare_question() -> None:
    task = plugins.load("task", "gsm8k")
    item: Item = task.to_item({"question": "How many?", "answer": "#### 3"})
    assert item.messages == ({"role": "user", "content": "How many?"},)
