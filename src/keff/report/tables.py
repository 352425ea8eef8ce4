"""Tables: plain rows -> LaTeX (booktabs), Markdown and CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Format = Literal["latex", "markdown", "csv"]
Row = Mapping[str, Any]

_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "&": r"\&",
        "%": r"\%",
        "$": r"\$",
        "#": r"\#",
        "_": r"\_",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "±": r"$\pm$",
        "ε": r"$\varepsilon$",
        "ρ": r"$\rho$",
        "Δ": r"$\Delta$",
        "–": "--",
    }
)


FORMULA = ("=", "+", "-", "@")


@dataclass(frozen=True, slots=True)
class Column:
    """One column: the key in a row, its header, and how a number is written.

    ``style`` is a format such as ``.2f``, ``+.1%`` or ``d``; "" writes the value as it is. ``spread`` names
    the key of a deviation that follows after ±. ``latex`` replaces the header in LaTeX, as it is.
    """

    key: str
    header: str
    style: str = ""
    spread: str = ""
    latex: str = ""

    def text(self, row: Row) -> str:
        """Return the cell; a dash where the value is missing or undefined."""
        value = _written(row.get(self.key), self.style)
        spread = _written(row.get(self.spread), self.style.lstrip("+")) if self.spread else "–"
        return value if "–" in (value, spread) else f"{value} ± {spread}"

    @property
    def number(self) -> bool:
        """Whether the column holds numbers."""
        return bool(self.style)


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its name (also its LaTeX label), caption, columns and rows.

    ``group`` starts a new block of rows whenever the value of that column changes.
    """

    name: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    group: str = ""


def render(table: Table, form: Format) -> str:
    """Return a table as text, ending with a newline."""
    return {"latex": latex, "markdown": markdown, "csv": as_csv}[form](table)


def latex(table: Table) -> str:
    """Return a LaTeX table environment with booktabs rules."""
    shape = "".join("r" if column.number else "l" for column in table.columns)
    heads = [column.latex or column.header.translate(_LATEX) for column in table.columns]
    lines = [
        r"\begin{table}[t]",
        rf"\caption{{{table.caption.translate(_LATEX)}}}",
        rf"\label{{tab:{table.name}}}",
        r"\centering",
        rf"\begin{{tabular}}{{{shape}}}",
        r"\toprule",
        " & ".join(heads) + r" \\",
        r"\midrule",
    ]
    for place, row in enumerate(table.rows):
        if place and table.group and row.get(table.group) != table.rows[place - 1].get(table.group):
            lines.append(r"\midrule")
        lines.append(" & ".join(_latex_cell(column, row) for column in table.columns) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def markdown(table: Table) -> str:
    """Return a Markdown table under its caption."""
    heads = [column.header.replace("|", r"\|") for column in table.columns]
    rules = ["---:" if column.number else "---" for column in table.columns]
    rows = [
        [one_line(column.text(row)).replace("|", r"\|") for column in table.columns] for row in table.rows
    ]
    lines = [" | ".join(cells) for cells in (heads, rules, *rows)]
    return f"**{table.caption}**\n\n" + "\n".join(f"| {line} |" for line in lines) + "\n"


def as_csv(table: Table) -> str:
    """Return comma-separated values in full precision, under the keys of the columns.

    Empty where undefined.
    """
    keys = [key for column in table.columns for key in (column.key, column.spread) if key]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(keys)
    writer.writerows([_raw(row.get(key)) for key in keys] for row in table.rows)
    return out.getvalue()


def _written(value: Any, style: str) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, float) and math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return format(value, style) if style and not isinstance(value, str) else str(value)


def _latex_cell(column: Column, row: Row) -> str:
    text = column.text(row)
    if column.number and text.startswith("-"):
        text = "−" + text[1:]
    return text.translate(_LATEX).replace("−", "$-$").replace("∞", r"$\infty$")


def one_line(text: str) -> str:
    """Return a text on one line: a line break in a model's name would end a row."""
    return " ".join(text.split())


def _raw(value: Any) -> Any:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    # A spreadsheet runs a cell that begins so as a formula, and a model may be called =HYPERLINK(...).
    return f"'{value}" if isinstance(value, str) and value.lstrip()[:1] in FORMULA else value
