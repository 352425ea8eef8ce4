"""What readers of tables with named columns share: which column means what, and how its rows are told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from keff.errors import LogError
from keff.log import Question, Tell, unheard
from keff.logs._columns import Layout
from keff.logs._rows import Row
from keff.logs._tabled import tabled
from keff.records import Note


class TableLog:
    """Reader of a table, read from the start as often as its rows are needed.

    Which column means what is in ``keff.logs._columns``: named by ``columns``, or known by an obvious name.
    """

    def __init__(self, columns: Mapping[str, str] | None = None) -> None:
        self.columns = columns

    def layout(self, path: Path) -> Layout | str:
        """Return where the words stand, or why the file is no table of answers."""
        raise NotImplementedError

    def rows(self, path: Path, layout: Layout, tell: Tell) -> Iterator[tuple[str, Row]]:
        """Read the rows, each with its place."""
        raise NotImplementedError

    def doubts(self, path: Path) -> list[Note]:
        """Return what is doubtful about a file of which no row was left out."""
        del path
        return []

    def refuses(self, path: Path) -> str | None:
        """Return why this is not a file of the format, or None when it is."""
        layout = self.layout(path)
        return layout if isinstance(layout, str) else None

    def questions(self, path: Path, *, texts: bool = False, tell: Tell = unheard) -> Iterator[Question]:
        """Read question by question; see ``Log.questions``."""
        layout = self.layout(path)
        if isinstance(layout, str):
            raise LogError(f"{path}: {layout}")
        for note in layout.notes:
            tell(note)
        heard: list[Note] = []
        yield from tabled(lambda: self.rows(path, layout, heard.append), layout, texts=texts)
        # Passes over the file may be several: what they leave out is one thing.
        for note in dict.fromkeys(heard or self.doubts(path)):
            tell(note)
