"""Tables from plain rows: LaTeX (booktabs), Markdown and CSV."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, Literal

from keff.console import harmless
from keff.records import frozen, number

Format = Literal["latex", "markdown", "csv"]
Row = Mapping[str, Any]

# Characters that LaTeX reads as commands, or that its standard fonts lack.
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


# Points of the narrowest column (article in two columns; IEEEtran has 252) and text (article in one).
COLUMN, TEXT = 229, 345

# Points on either side of a column (\tabcolsep).
GAP = 3

# Points of \footnotesize, and how much wider in ems its letters are than those of cmr10.
SIZE, SMALLER = 8, 1.0625

Span = Literal["column", "text"]

# Widths of letters in cmr10, in ems, rounded up to that of a group; any other letter counts as one em.
_EM = {
    **dict.fromkeys("il.,:;'|!", 0.278),
    **dict.fromkeys("fj", 0.306),
    **dict.fromkeys(" -", 0.333),
    **dict.fromkeys("rst()", 0.394),
    **dict.fromkeys("cez", 0.444),
    **dict.fromkeys("ago0123456789/–", 0.5),
    **dict.fromkeys("bdhknpquvxyρεJS", 0.556),
    **dict.fromkeys("ILZ*", 0.625),
    **dict.fromkeys("wABCDEFGHKNOPQRTUVXY&±+−=@Δ_", 0.785),
    **dict.fromkeys("m%", 0.834),
    **dict.fromkeys("MW", 1.028),
}

# A space outside mathematics.
_BREAK = r" (?![^$]*\$(?:[^$]*\$[^$]*\$)*[^$]*$)"

# A spreadsheet takes a cell that begins so for a formula, and would run it: names come from hostile logs.
FORMULA = ("=", "+", "-", "@")


@frozen
class Column:
    """One table column: its key, header and number format.

    ``style`` is a format such as ``.2f``, ``+.1%`` or ``d``; "" writes the value as it is. ``spread`` names
    the key of a deviation that follows after ±. ``latex`` replaces the header in LaTeX, as it is.
    """

    key: str
    header: str
    style: str = ""
    spread: str = ""
    latex: str = ""

    def text(self, row: Row) -> str:
        """Return a row's cell; a dash where missing or undefined."""
        value = _cell_text(row.get(self.key), self.style)
        spread = _cell_text(row.get(self.spread), self.style.lstrip("+")) if self.spread else "–"
        return value if "–" in (value, spread) else f"{value} ± {spread}"

    @property
    def head(self) -> list[str]:
        """The LaTeX header's lines, one per word."""
        return self.header.split(" ")

    @property
    def number(self) -> bool:
        """Whether the column holds numbers."""
        return bool(self.style)


@frozen
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
    writers: dict[str, Callable[[Table], str]] = {"latex": latex, "markdown": markdown, "csv": as_csv}
    return harmless(writers[form](table))


def file_of(table: Table, form: Format) -> tuple[str, str]:
    """Return the name of a table's file, and its text."""
    ending = {"latex": "tex", "markdown": "md", "csv": "csv"}[form]
    return f"{table.name}.{ending}", render(table, form)


def latex(table: Table, span: Span | None = None) -> str:
    r"""Return a LaTeX float of column or text width, by default the narrower one that holds the table whole.

    Columns that do not fit even there continue below, in a second tabular. Type is \footnotesize. What is
    told of the width is counted with the widths of Computer Modern, the widest of the usual faces, so the
    float fits IEEEtran and article alike. Needs the package booktabs.
    """
    if span is None:
        span = "column" if _width(table.columns, table) <= COLUMN else "text"
    float_name, room = ("table", COLUMN) if span == "column" else ("table*", TEXT)
    panels = list(_panels(table, room))
    most = max(width for _, width in panels)
    lines = [
        r"% In the preamble: \usepackage{booktabs}",
        f"% At most {most:.0f} pt wide; the narrowest {span} of IEEEtran and article has {room} pt.",
        rf"\begin{{{float_name}}}[t]",
        rf"\caption{{{table.caption.translate(_LATEX)}}}",
        rf"\label{{tab:{table.name}}}",
        r"\centering",
        rf"\footnotesize\setlength{{\tabcolsep}}{{{GAP}pt}}",
    ]
    for place, (columns, _) in enumerate(panels):
        lines += [r"\par\smallskip"] if place else []
        lines += _tabular(columns, table)
    return "\n".join([*lines, rf"\end{{{float_name}}}"]) + "\n"


def _tabular(columns: Sequence[Column], table: Table) -> Iterator[str]:
    shape = "".join("r" if column.number else "l" for column in columns)
    yield rf"\begin{{tabular}}{{@{{}}{shape}@{{}}}}"
    yield r"\toprule"
    yield " & ".join(map(_latex_head, columns)) + r" \\"
    yield r"\midrule"
    for place, row in enumerate(table.rows):
        if place and table.group and row.get(table.group) != table.rows[place - 1].get(table.group):
            yield r"\midrule"
        yield " & ".join(_latex_cell(column, row) for column in columns) + r" \\"
    yield r"\bottomrule"
    yield r"\end{tabular}"


def _panels(table: Table, room: float) -> Iterator[tuple[Sequence[Column], float]]:
    """Yield groups of columns that fit side by side, with width; each begins with the row names."""
    row_names = names(table)
    panel: list[Column] = []
    for column in table.columns:
        if _width([*panel, column], table) > room and len(panel) > len(row_names):
            yield panel, _width(panel, table)
            panel = [*row_names]
        panel.append(column)
    yield panel, _width(panel, table)


def names(table: Table) -> list[Column]:
    """Return the fewest leading columns that identify all rows."""
    values = [column for column in table.columns if column.style not in ("", "d", "g")]
    leading = list(table.columns[: table.columns.index(values[0])] if values else table.columns[:1])
    for size in range(1, len(leading)):
        for some in combinations(leading, size):
            if len({tuple(column.text(row) for column in some) for row in table.rows}) == len(table.rows):
                return list(some)
    return leading


def _width(columns: Sequence[Column], table: Table) -> float:
    """Return the width in points of columns side by side."""
    cells = [
        max(_points(text) for text in (*column.head, *(column.text(row) for row in table.rows)))
        for column in columns
    ]
    return sum(cells) + 2 * GAP * (len(cells) - 1)


def _points(text: str) -> float:
    return SIZE * SMALLER * sum(_EM.get(letter, 1.0) for letter in text)


def _latex_head(column: Column) -> str:
    heads = (
        re.split(_BREAK, column.latex) if column.latex else [word.translate(_LATEX) for word in column.head]
    )
    if len(heads) == 1:
        return heads[0]
    side, lines = "r" if column.number else "l", r"\\".join(heads)
    return rf"\shortstack[{side}]{{{lines}}}"


def markdown(table: Table) -> str:
    """Return a Markdown table under its caption."""
    heads = [column.header.replace("|", r"\|") for column in table.columns]
    rules = ["---:" if column.number else "---" for column in table.columns]
    rows = [
        # On one line, since a line break would end a row.
        [" ".join(column.text(row).split()).replace("|", r"\|") for column in table.columns]
        for row in table.rows
    ]
    lines = [" | ".join(cells) for cells in (heads, rules, *rows)]
    return f"**{table.caption}**\n\n" + "\n".join(f"| {line} |" for line in lines) + "\n"


def as_csv(table: Table) -> str:
    """Return CSV in full precision, with the columns' keys as header.

    Empty where undefined.
    """
    keys = [key for column in table.columns for key in (column.key, column.spread) if key]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(keys)
    writer.writerows([_raw(row.get(key)) for key in keys] for row in table.rows)
    return out.getvalue()


def _cell_text(value: Any, style: str) -> str:
    return value if isinstance(value, str) else number(value, style)


def _latex_cell(column: Column, row: Row) -> str:
    text = column.text(row)
    if column.number and text.startswith("-"):
        text = "−" + text[1:]
    return text.translate(_LATEX).replace("−", "$-$").replace("∞", r"$\infty$")


def _raw(value: Any) -> Any:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    # A spreadsheet runs a cell that begins so as a formula, and a model may be called =HYPERLINK(...).
    return f"'{value}" if isinstance(value, str) and value.lstrip()[:1] in FORMULA else value
