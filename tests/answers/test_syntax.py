"""Programs are read in several threads at once, on interpreters where that alone fails."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from keff.answers.literal import parse

SOURCE = (
    "x = " + "[" * 20 + "1" + "]" * 20 + "\n" + "def f(a):\n    return [i for i in range(a) if i > 4]\n" * 5
)


class Litter:
    """A cycle that runs Python when it is collected, while a tree is built: another thread goes on then."""

    def __init__(self) -> None:
        self.own = self

    def __del__(self) -> None:
        threading.Event().wait(1e-5)


@pytest.fixture
def hurried() -> Iterator[None]:
    threshold, interval = gc.get_threshold(), sys.getswitchinterval()
    gc.set_threshold(50)
    sys.setswitchinterval(1e-6)
    yield
    gc.set_threshold(*threshold)
    sys.setswitchinterval(interval)


@pytest.mark.slow
@pytest.mark.usefixtures("hurried")
def test_trees_are_built_in_many_threads_at_once() -> None:
    def work(_: int) -> int:
        Litter()
        return len(parse(SOURCE).body)

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(work, range(300))) == {6}
