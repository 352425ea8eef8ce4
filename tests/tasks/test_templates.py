"""The prompt templates are those of the paper, and users can bring their own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from keff import plugins
from keff.errors import TaskError
from keff.records import Item
from keff.tasks._templates import family, read_templates

FAMILIES = {
    "Math tasks": "math",
    "QA tasks": "qa",
    "Science/MC tasks": "science",
    "Code generation": "code",
    "Code understanding": "output",
    "Commonsense (HellaSwag)": "continuation",
    "Commonsense (WinoGrande)": "blank",
    "Reading comprehension": "passage",
    "Discrete reasoning": "discrete",
}


def test_all_72_templates_are_quoted_from_the_papers_appendix(shared: Path) -> None:
    tex = (shared / "paper" / "diversity_combining.tex").read_text("utf-8")
    appendix = tex[tex.index(r"\label{app:templates}") :].partition(r"\section")[0]
    quoted: dict[str, tuple[str, ...]] = {}
    for block in appendix.split(r"\noindent\textbf{")[1:]:
        named = next(name for title, name in FAMILIES.items() if block.startswith(title))
        quoted[named] = tuple(
            text.replace(r"vs.\ ", "vs. ") for text in re.findall(r"\\item [^`]*``(.*?)''", block)
        )
    assert quoted == {name: family(name) for name in FAMILIES.values()}
    assert all(len(each) == 8 for each in quoted.values())


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
