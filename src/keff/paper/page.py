"""The page that says where the paper's way and ours differ on these records, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from keff.paper import page_matrix, page_series
from keff.paper.wording import Numbers, section

Section = Callable[[Numbers], str | None]

OF_ARMS: tuple[Section, ...] = (
    page_series.estimators,
    page_series.subsets,
    page_series.plurality,
    page_series.conservative,
    page_series.pilot,
    page_series.reasoning,
)
OF_PAIRS: tuple[Section, ...] = (
    page_matrix.intervals,
    page_matrix.mann_whitney,
    page_matrix.predictor,
    page_matrix.weights,
    page_matrix.oracle,
    page_matrix.block,
    page_matrix.phi,
)


def differences(numbers: Numbers) -> str:
    """Return the page in Markdown from the contents of numbers.json."""
    parts = ["# The paper's way and ours\n", _checks(numbers)]
    parts += [text for text in (make(numbers) for make in OF_ARMS) if text]
    for name, part in _comparisons(numbers):
        texts = [text for text in (make(part) for make in OF_PAIRS) if text]
        parts += [text.replace("\n", f": {name}\n", 1) for text in texts] if name else texts
    parts.append(_list("Files that are missing", numbers["missing"]))
    parts.append(_list("What is wrong with the files", numbers["problems"]))
    return "\n".join(part for part in parts if part)


def _comparisons(numbers: Numbers) -> Iterator[tuple[str, Numbers]]:
    """Yield each comparison of arms with its own headline and Table 3; one alone needs no name."""
    several: dict[str, Numbers] = numbers["headline"].get("comparisons") or {}
    if not several:
        yield "", numbers
    for name, headline in several.items():
        rows = [
            row for row in numbers["tables"]["table3"] if f"{row['arm']} against {row['against']}" == name
        ]
        yield name, numbers | {"headline": headline, "tables": {"table3": rows}}


def _checks(numbers: Numbers) -> str:
    checks = numbers["checks"]
    if not checks["printed_numbers"]:
        return ""
    text = (
        f"{checks['agree']} of the {checks['printed_numbers']} printed numbers that these records allow to "
        "be recomputed agree within their last digit.\n"
    )
    if not checks["differ"]:
        return text
    rows = [
        f"| {check['table']} | {check['row']} | {check['column']} | {check['printed']} | {_found(check)} |"
        for check in checks["differ"][:40]
    ]
    more = len(checks["differ"]) - len(rows)
    rest = f"\n{more} more are in numbers.json.\n" if more > 0 else ""
    head = "| table | row | column | printed | recomputed |\n| --- | --- | --- | ---: | ---: |\n"
    return (
        f"{text}\n{head}"
        + "\n".join(rows)
        + f"\n{rest}\nTable 10 and the intervals rest on random draws, so their last digits move.\n"
    )


def _found(check: Numbers) -> str:
    if check["found"] is None:
        return "–"
    return f"{check['found']:.2%}" if check["printed"].endswith("%") else f"{check['found']:.4g}"


def _list(title: str, lines: list[str]) -> str:
    return section(title, "\n".join(f"- {line}" for line in lines)) if lines else ""
