"""The eight prompt templates of each task family, as quoted in the paper's appendix "Prompt Templates".

They are the experimental parameters of the paper's template arm. Slots count from 0, as in its published
records: slot j is the appendix's template j + 1, and slot 0, the first of each family, is also the plain
self-consistency prompt. The framing around them and the final-answer instruction are keff's own, and the
same for every slot.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from keff.errors import TaskError
from keff.narrow import items

TEMPLATES: dict[str, tuple[str, ...]] = {
    "math": (
        "Solve step by step.",
        "Use algebraic equations. Define variables, write equations, solve.",
        "First estimate, then solve precisely.",
        "Break into sub-problems, solve each, combine.",
        "Work backwards from a hypothetical answer, then solve forward.",
        "Solve, then verify by substituting back.",
        "Show key steps only.",
        "Explain as if teaching a student.",
    ),
    "qa": (
        "Answer based on the context.",
        "Reason step by step.",
        "Identify key facts, then answer.",
        "Give a short, direct answer.",
        "Answer, then verify against context.",
        "Break into sub-questions, answer each, combine.",
        "Answer in as few words as possible.",
        "Explain reasoning thoroughly, then give final answer.",
    ),
    "science": (
        "Answer the following multiple choice question.",
        "Think step by step, then select the best answer.",
        "Eliminate wrong answers first, then choose.",
        "Give the answer directly with just the letter.",
        "Explain why each option is right or wrong, then select.",
        "Use your scientific knowledge to answer.",
        "Consider real-world examples to determine the answer.",
        "What would a teacher say is the correct answer?",
    ),
    "code": (
        "Complete the following Python function.",
        "Think about the approach step by step, then complete.",
        "Consider what test cases to handle, then implement.",
        "Write the most concise implementation possible.",
        "Write a robust implementation with edge case handling.",
        "Choose the most efficient algorithm and implement.",
        "Write clean, readable code with meaningful variable names.",
        "Think of an alternative approach, then implement.",
    ),
    "output": (
        "What is the output of the following Python code?",
        "Trace through this code step by step, then give the output.",
        "Execute this function mentally and predict the result.",
        "Give only the output value, nothing else.",
        "What does the function return?",
        "Analyze the code logic, then predict the output.",
        "Think about edge cases, then give the output.",
        "Simulate a Python interpreter running this code.",
    ),
    "continuation": (
        "Choose the most likely continuation of the scenario.",
        "Think step by step about what happens next, then select.",
        "Eliminate unlikely continuations first, then choose.",
        "Give just the letter of the most likely continuation.",
        "Consider real-world common sense to determine the continuation.",
        "Visualize the scenario, then choose what would happen next.",
        "Think about cause and effect to select the continuation.",
        "What would naturally follow in this situation?",
    ),
    "blank": (
        "Which option best fills the blank?",
        "Think about context clues step by step.",
        "Consider both options and eliminate the wrong one.",
        "Give just A or B.",
        "Use real-world knowledge to decide.",
        "Read carefully, focus on meaning, and select.",
        "Which option makes the sentence logically coherent?",
        "Think about what makes grammatical and semantic sense.",
    ),
    "passage": (
        "Based on the passage, answer Yes or No.",
        "Read carefully and reason step by step, then answer.",
        "Find the relevant evidence, then answer.",
        "Answer only Yes or No, nothing else.",
        "First quote the relevant passage part, then answer.",
        "Does the passage support or contradict the question?",
        "What does the passage actually say vs. imply?",
        "Is the answer explicitly stated or inferred?",
    ),
    "discrete": (
        "Read the passage and answer the question.",
        "Think step by step, count or compare as needed.",
        "Find the relevant numbers or facts, then answer.",
        "Give a short, direct answer.",
        "Show your arithmetic or reasoning, then answer.",
        "Focus on the specific details asked about.",
        "Extract relevant information, then compute the answer.",
        "Trace the quantities mentioned to answer.",
    ),
}


def read_templates(path: str | Path) -> tuple[str, ...]:
    """Read ``templates = ["...", "..."]`` from a TOML file; raises TaskError if it does not hold that."""
    try:
        content = tomllib.loads(Path(path).read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise TaskError(f"{path}: not a readable TOML file: {error}") from error
    given = items(content.get("templates"))
    templates = [each for each in given if isinstance(each, str)]
    if not templates or len(templates) < len(given):
        raise TaskError(f'{path}: expected templates = ["...", ...] with at least one text')
    return tuple(templates)
