"""Write the results of README.md, of the documentation and of the demo from docs/atlas.

    python scripts/write_readme.py


Which workloads are shown is settled by a rule that looks at no result: go through the data sets recorded with
at least 32 paths per question by their number of questions (most first, then by name); from each take the
model that is first by name and not in the table yet; stop at five. Game of 24 is passed over: a question
there has many right answers, so answers cannot vote.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import median

from atlas import AtlasEntry, of_eight, read_atlas

from keff.analysis.results.words import points
from keff.cli.demo import FILE
from keff.records import Interval

REPO = Path(__file__).resolve().parents[1]
README, TABLE = REPO / "README.md", REPO / "docs" / "which-policy-measured.md"
ATLAS = REPO / "docs" / "atlas" / "atlas.json"
BEGIN, END = "<!-- results: scripts/write_readme.py -->", "<!-- end of results -->"
PASSED_OVER = {"Game of 24"}
LONG, ROWS = 32, 5
HEADS = (
    "model, data set",
    "1 path",
    "8 paths",
    "decision",
    "its paths",
    "accuracy, points",
    "paths saved",
    "tokens saved",
)


def chosen(entries: tuple[AtlasEntry, ...]) -> list[AtlasEntry]:
    """Return the five lines that the rule takes."""
    long = [entry for entry in entries if entry.paths >= LONG and entry.dataset not in PASSED_OVER]
    sizes = {entry.dataset: entry.questions for entry in long}
    shown: dict[str, AtlasEntry] = {}
    for dataset in sorted(sizes, key=lambda name: (-sizes[name], name)):
        own = sorted((entry for entry in long if entry.dataset == dataset), key=lambda entry: entry.model)
        new = [entry for entry in own if entry.model not in shown]
        if new and len(shown) < ROWS:
            shown[new[0].model] = new[0]
    return list(shown.values())


def table(entries: list[AtlasEntry]) -> str:
    """Return the table in Markdown."""
    lines = ["| " + " | ".join(HEADS) + " |", "|---" + "|---:" * (len(HEADS) - 1) + "|"]
    for entry in entries:
        paths = "–" if entry.mean_paths is None else _bare(entry.mean_paths.text(".1f"))
        saved = [_percent(value, 0) for value in (entry.paths_saved, entry.tokens_saved)]
        name = f"{entry.model}, {entry.dataset.replace(' (100)', '')} ({entry.questions} questions)"
        rule = [entry.verdict or "–", paths, points(entry.points)]
        lines.append("| " + " | ".join([name, _percent(entry.p), _percent(entry.vote), *rule, *saved]) + " |")
    return "\n".join(lines)


def _percent(value: Interval | None, digits: int = 1) -> str:
    if value is None:
        return "not recorded"
    return _bare(value.percent(digits))


def _bare(text: str) -> str:
    """Leave out an interval that is no wider than the rounding."""
    value, _, limits = text.partition(" [")
    lo, _, hi = limits.rstrip("]").partition(", ")
    return value if lo == hi else text


def beside() -> str:
    """Return what the demo shows beside its own decision, one sentence each, as JSON."""
    entries = sorted(chosen(read_atlas(ATLAS).entries), key=lambda entry: (entry.dataset, entry.model))
    return json.dumps(list(map(sentence, entries)), ensure_ascii=False, indent=1) + "\n"


def sentence(entry: AtlasEntry) -> str:
    """Return what was measured on a workload in one sentence."""
    accuracy = f"one path is right {entry.p.percent()} of the time"
    if entry.vote is not None:
        accuracy += f", the vote of {entry.today} {entry.vote.percent()}"
    rule = f"{entry.model}, {entry.dataset}: {accuracy}"
    if entry.kept is None or entry.mean_paths is None:
        return f"{rule}."
    paths = "1 path" if entry.mean_paths.value == 1 else f"{entry.mean_paths.text('.1f')} paths"
    return f"{rule}; {entry.policy} keeps {entry.kept.percent()} of that with {paths} per question."


def filled(text: str) -> str:
    """Return a page with the table between its marks, and what the atlas says in one sentence."""
    entries = read_atlas(ATLAS).entries
    block = f"{BEGIN}\n{table(chosen(entries))}\n{END}"
    text = re.sub(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: block, text, flags=re.DOTALL)
    drawn, kept = of_eight(entries)
    first = (
        f"In the median of {len(drawn)} recorded workloads, {median(drawn):.1f} reasoning paths per question "
        f"keep {median(kept):.1%} of the accuracy of 8"
    )
    return re.sub(r"In the median of \d+ recorded workloads, .*? of the accuracy of \d+", first, text)


if __name__ == "__main__":
    for page in (README, TABLE):
        page.write_text(filled(page.read_text("utf-8")), encoding="utf-8")
    FILE.write_text(beside(), encoding="utf-8")
    print(README, TABLE, FILE, sep="\n")
