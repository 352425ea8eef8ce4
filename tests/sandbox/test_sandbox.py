"""The jail: what it holds back, what it lets through, and what a hostile program gets from it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from keff.sandbox import Limits
from keff.tasks.mbpp import Ran
from sandbox_rig import GOLD, SHORT, mbpp, needs_bwrap

pytestmark = pytest.mark.slow
HOSTILE = sorted((Path(__file__).parent / "hostile").glob("*.py"))


@dataclass
class Host:
    """What a hostile program may want to reach, and what it must leave alone."""

    canary: Path
    listener: socket.socket
    abstract: socket.socket
    limits: Limits = SHORT

    def described(self) -> str:
        return (
            f"CANARY = {str(self.canary)!r}\nPORT = {self.listener.getsockname()[1]}\n"
            f"ABSTRACT = {self.abstract.getsockname()!r}\nHOME = {str(Path.home())!r}\n"
        )

    def check_untouched(self) -> None:
        assert self.canary.read_text() == "untouched"
        assert [each.name for each in self.canary.parent.iterdir()] == ["canary"]
        for listener in (self.listener, self.abstract):
            with pytest.raises(BlockingIOError):
                listener.accept()
        mark = f"AS={self.limits.memory},FSIZE={self.limits.file_bytes}"
        assert _eventually(lambda: not alive(mark) and not alive(str(self.canary)))


@contextmanager
def exposed(folder: Path, number: int) -> Iterator[Host]:
    """Give a host of its own to reach for.

    Its limits differ by a few bytes of memory, to tell its jails apart.
    """
    folder.mkdir(exist_ok=True)
    canary = folder / "canary"
    canary.write_text("untouched")
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(f"\0keff-test-{os.getpid()}-{number}")
        abstract.listen()
        listener.setblocking(False)
        abstract.setblocking(False)
        yield Host(canary, listener, abstract, replace(SHORT, memory=SHORT.memory + 4096 * number))


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    with exposed(tmp_path / "host", 0) as host:
        yield host


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Ran]]]:
    """Run all hostile programs, a few at once, each against its own host that it must leave untouched."""
    folder = tmp_path_factory.mktemp("hosts")

    def attack(path: Path, number: int) -> Ran:
        with exposed(folder / path.stem, number) as host:
            task = mbpp(host.limits)
            ran = task.ran(host.described() + path.read_text("utf-8"), GOLD)
            host.check_untouched()
            return ran

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(4) as pool:
        patch.setenv("KEFF_TEST_SECRET", "secret")
        yield {path.stem: pool.submit(attack, path, number) for number, path in enumerate(HOSTILE, start=1)}


def alive(mark: str) -> list[str]:
    """Return the command lines of running processes that hold a text."""
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().decode("utf-8", "replace")
        except OSError:
            continue
        if mark in line:
            found.append(line[:200])
    return found


def test_there_are_at_least_thirty_hostile_programs() -> None:
    assert len(HOSTILE) >= 30


@needs_bwrap
@pytest.mark.parametrize("name", [path.stem for path in HOSTILE])
def test_hostile_program_neither_escapes_nor_passes(attacked: dict[str, Future[Ran]], name: str) -> None:
    # Each returns the right answer only if its attack works.
    assert not attacked[name].result().correct


def test_the_attacks_work_without_the_jail(host: Host) -> None:
    """So the tests above can fail."""
    task = mbpp()
    task.unsafe_exec = True
    for name in (
        "read_host_file",
        "network_connect",
        "network_abstract_socket",
        "read_processes",
        "overwrite_host_file",
    ):
        source = host.described() + (Path(__file__).parent / "hostile" / f"{name}.py").read_text("utf-8")
        assert task.ran(source, GOLD).correct == (name != "overwrite_host_file"), name
    assert host.canary.read_text() == "escaped"
    host.listener.accept()[0].close()
    host.abstract.accept()[0].close()


@needs_bwrap
def test_an_honest_program_passes_and_a_wrong_one_votes_otherwise() -> None:
    right, wrong = mbpp().ran("def f(x): return x ** 2", GOLD), mbpp().ran("def f(x): return x + 2", GOLD)
    assert right == Ran("4, 49", True)
    assert wrong == Ran("4, 9", False)


@needs_bwrap
def test_a_program_that_kills_the_jail_hurts_no_neighbour() -> None:
    bomb = (Path(__file__).parent / "hostile" / "kill_everyone.py").read_text("utf-8")
    sources = ["def f(x): return x * x", bomb] * 2
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda source: mbpp().ran(source, GOLD).correct, sources))
    assert results == [True, False] * 2


@needs_bwrap
def test_what_the_tests_import_cannot_be_replaced_by_the_program() -> None:
    gold = {"imports": ["from math import isclose"], "tests": ["assert isclose(f(2), 4.0)"]}
    fake = "import math\nmath.isclose = lambda *_, **__: True\nisclose = math.isclose\ndef f(x): return 5"
    assert not mbpp().correct(fake, gold)
    assert mbpp().correct("def f(x): return 4 + 1e-12", gold)


@needs_bwrap
def test_nothing_outlives_its_killed_parent() -> None:
    """A scorer that is killed takes its jails with it."""
    mark = (8 << 20) + 2 * os.getpid() + 1
    program = (
        "from keff.sandbox import Limits, _process\n"
        "import threading, time\n"
        f"limits = Limits(seconds=60, file_bytes={mark})\n"
        "threading.Thread(target=_process._run, args=('import time; time.sleep(60)', b'', limits),"
        " kwargs={'unsafe': False}).start()\n"
    )
    scorer = subprocess.Popen([sys.executable, "-c", program])
    try:
        assert _eventually(lambda: bool(alive(f"FSIZE={mark}")))
    finally:
        scorer.kill()
        scorer.wait()
    assert _eventually(lambda: not alive(f"FSIZE={mark}"))


def _eventually(true: Callable[[], bool]) -> bool:
    for _ in range(200):
        if true():
            return True
        time.sleep(0.05)
    return False
