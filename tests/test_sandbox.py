"""The jail: what it holds back, what it lets through, and what a hostile program gets from it."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from keff import sandbox
from keff.errors import SandboxError
from keff.plugins import load
from keff.sandbox import Limits, _files, _jail, _preflight
from keff.tasks.mbpp import Mbpp, Ran

pytestmark = pytest.mark.slow

HOSTILE = sorted((Path(__file__).parent / "hostile").glob("*.py"))
GOLD = {"imports": [], "tests": ["assert f(2) == 4", "assert f(7) == 49"]}
SHORT = Limits(seconds=1.5, cpu=1, file_bytes=(8 << 20) + os.getpid())
"""The odd file size marks the command lines of this test's jails."""


@pytest.fixture(scope="module")
def bwrap() -> None:
    if shutil.which("bwrap") is None:
        reason = "bubblewrap is not installed: apt-get install bubblewrap"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)


needs_bwrap = pytest.mark.usefixtures("bwrap")


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


def mbpp(limits: Limits = SHORT) -> Mbpp:
    task: Mbpp = load("task", "mbpp")
    task.limits = limits
    return task


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
def test_only_the_interpreter_its_library_and_loader_are_visible() -> None:
    source = (
        "import os, ssl, sqlite3, decimal, json\n"
        "print(json.dumps([os.path.join(at, name) for at, _, names in os.walk('/') for name in names]))"
    )
    files = json.loads(sandbox.run(source, limits=Limits(output=4 << 20)).stdout)
    allowed = (str(_files.library()), "/dev/", "/etc/ld.so.cache")
    others = {file for file in files if not file.startswith(allowed)}
    assert others <= {_files.python(), *_files.shared_libraries()}
    assert not [file for file in files if "-packages/" in file]


@needs_bwrap
@pytest.mark.parametrize(
    "attempt",
    [
        "open('/tmp/x', 'w')",
        "os.mkdir('/tmp/x')",
        "open('/dev/shm/x', 'w')",
        "queue(libc.msgget(0, 0o1600))",
        "queue(libc.mq_open(b'/q', 0o102, 0o600, None))",
        "queue(libc.semget(0, 1, 0o1600))",
    ],
)
def test_no_kernel_memory_is_to_be_had(attempt: str) -> None:
    source = (
        "import ctypes, os\nlibc = ctypes.CDLL(None)\n"
        "def queue(number):\n    if number < 0: raise OSError\n"
        f"try:\n    {attempt}\nexcept OSError:\n    print('refused')"
    )
    assert sandbox.run(source).stdout == b"refused\n"


@needs_bwrap
def test_a_jail_that_is_slow_to_start_is_given_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy machine: the limit counts from the program's start."""
    slow, real = tmp_path / "bwrap", shutil.which("bwrap")
    slow.write_text(f'#!/bin/sh\nsleep 1\nexec {real} "$@"\n')
    slow.chmod(0o755)
    sandbox.preflight()
    monkeypatch.setattr(_preflight.shutil, "which", lambda _: str(slow))
    assert sandbox.run("print('here')", limits=Limits(seconds=0.5)).stdout == b"here\n"


@needs_bwrap
def test_order_of_a_set_is_the_same_in_every_run() -> None:
    source = "print(list({'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'}))"
    assert len({sandbox.run(source).stdout for _ in range(4)}) == 1


@needs_bwrap
def test_stdin_reaches_the_program_whole() -> None:
    text = os.urandom(300_000)
    outcome = sandbox.run("import sys, zlib; print(zlib.crc32(sys.stdin.buffer.read()))", text)
    assert int(outcome.stdout) == zlib.crc32(text)


@needs_bwrap
def test_how_a_program_ended_is_told() -> None:
    assert sandbox.run("print('hello')", limits=SHORT).stdout == b"hello\n"
    failed = sandbox.run("raise SystemExit(3)", limits=SHORT)
    assert (failed.status, failed.code) == ("exited", 3)
    flooded = sandbox.run("while True: print('x' * 10000)", limits=SHORT)
    assert flooded.status == "flood"
    assert len(flooded.stdout) < SHORT.output + (1 << 17)
    assert sandbox.run("import time; time.sleep(60)", limits=Limits(seconds=0.8)).status == "timeout"
    closed = sandbox.run(
        "import os, time; os.close(1); os.close(2); time.sleep(60)", limits=Limits(seconds=0.8)
    )
    assert closed.status == "timeout"
    spun = sandbox.run("while True: pass", limits=Limits(seconds=30, cpu=1))
    assert spun.status == "exited"
    assert spun.code != 0


@needs_bwrap
def test_nothing_outlives_its_killed_parent() -> None:
    """A scorer that is killed takes its jails with it."""
    mark = (8 << 20) + 2 * os.getpid() + 1
    program = (
        "from keff.sandbox import Limits, _preflight\n"
        "import threading, time\n"
        f"limits = Limits(seconds=60, file_bytes={mark})\n"
        "threading.Thread(target=_preflight._run, args=('import time; time.sleep(60)', b'', limits),"
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


def test_without_bubblewrap_code_is_refused_with_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_preflight.shutil, "which", lambda _: None)
    sandbox.preflight.cache_clear()
    with pytest.raises(SandboxError, match="apt-get install bubblewrap") as refused:
        mbpp().correct("def f(x): return x * x", GOLD)
    assert "unsafe" not in str(refused.value)
    task = load("task", "mbpp", unsafe_exec=True)
    assert task.correct("def f(x): return x * x", GOLD)


@needs_bwrap
def test_a_bwrap_that_does_not_start_is_an_error_not_a_wrong_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    broken.chmod(0o755)
    sandbox.preflight()
    monkeypatch.setattr(_preflight.shutil, "which", lambda _: str(broken))
    with pytest.raises(SandboxError, match="No permissions to create new namespace"):
        mbpp().correct("def f(x): return x * x", GOLD)


@needs_bwrap
@pytest.mark.parametrize(
    ("removed", "reported"),
    [("--unshare-net", "network"), ("sealed", "a writable system"), ("seccomp", "a new user namespace")],
)
def test_preflight_finds_a_hole(monkeypatch: pytest.MonkeyPatch, removed: str, reported: str) -> None:
    if removed != "--unshare-net" and os.geteuid() != 0:
        removed, reported = "--unshare-net", "network"
    whole = _jail.command

    def holed(program: str, fd: int | None) -> list[str]:
        line = whole(program, fd)
        if removed == "seccomp":
            return whole(program, None)
        if removed == "sealed":
            return _unsealed(line)
        return [each for each in line if each != removed]

    monkeypatch.setattr(_preflight, "command", holed)
    sandbox.preflight.cache_clear()
    with pytest.raises(SandboxError, match=reported):
        sandbox.run("pass")
    sandbox.preflight.cache_clear()


def _unsealed(line: list[str]) -> list[str]:
    """Make /etc a writable folder."""
    at = line.index("--dev")
    return [*line[:at], "--perms", "0777", "--tmpfs", "/etc", *line[at:]]
