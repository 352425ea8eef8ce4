"""What a program in the sandbox has and how its end is told; without the sandbox code is refused."""

from __future__ import annotations

import errno
import json
import os
import shutil
import struct
import zlib
from pathlib import Path

import pytest

from keff import sandbox
from keff.errors import SandboxError
from keff.plugins import load
from keff.sandbox import Limits, _jail, _process
from sandbox_rig import GOLD, SHORT, mbpp, needs_bwrap

pytestmark = pytest.mark.slow


@needs_bwrap
def test_only_the_interpreter_its_library_and_loader_are_visible() -> None:
    source = (
        "import os, ssl, sqlite3, decimal, json\n"
        "print(json.dumps([os.path.join(at, name) for at, _, names in os.walk('/') for name in names]))"
    )
    files = json.loads(sandbox.run(source, limits=Limits(output=4 << 20)).stdout)
    allowed = (str(_jail.library()), "/dev/", "/etc/ld.so.cache")
    others = {file for file in files if not file.startswith(allowed)}
    assert others <= {_jail.python(), *_jail.shared_libraries()}
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
    monkeypatch.setattr(_process.shutil, "which", lambda _: str(slow))
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


def test_without_bubblewrap_code_is_refused_with_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_process.shutil, "which", lambda _: None)
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
    monkeypatch.setattr(_process.shutil, "which", lambda _: str(broken))
    with pytest.raises(SandboxError, match="No permissions to create new namespace"):
        mbpp().correct("def f(x): return x * x", GOLD)


@needs_bwrap
@pytest.mark.parametrize(
    ("let", "reported"),
    [
        # Without a network of its own the jail has none either: there is no call that makes a socket.
        (("network", "calls"), "network, network interfaces, sockets"),
        (("calls",), "message queues, memory that no limit counts, file locks"),
        (("files",), "a writable system"),
    ],
)
def test_preflight_finds_a_hole(monkeypatch: pytest.MonkeyPatch, let: tuple[str, ...], reported: str) -> None:
    if let == ("files",) and os.geteuid() != 0:
        pytest.skip("only root gets a folder that its jailed user may write")
    whole = _jail.command

    def holed(program: str, fd: int) -> list[str]:
        line = whole(program, fd)
        if "network" in let:
            line.remove("--unshare-net")
        if "calls" in let:
            at = line.index("--seccomp")
            del line[at : at + 2]
        return _unsealed(line) if "files" in let else line

    monkeypatch.setattr(_process, "command", holed)
    sandbox.preflight.cache_clear()
    with pytest.raises(SandboxError, match=reported):
        sandbox.run("pass")
    sandbox.preflight.cache_clear()


def test_a_machine_whose_calls_are_not_known_runs_no_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_jail.platform, "machine", lambda: "s390x")
    with pytest.raises(SandboxError, match="x86_64 and aarch64, not on s390x"):
        _jail.seccomp()


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_lets_through_what_is_listed_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, machine: str
) -> None:
    """The program, run by the rules of classic BPF, over all calls of both machines."""
    monkeypatch.setattr(_jail.platform, "machine", lambda: machine)
    column, arch = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}[machine]
    program = list(struct.iter_unpack("=HBBI", _jail.seccomp()))
    conditional = {call[column]: conditions for call, conditions in _jail.CONDITIONAL.items()}
    listed = set(_jail.allowed(column))
    assert not listed & set(conditional)
    for number in (*range(600), 0x40000000, 0x40000001, 0x40000029):
        given = [{argument: values[-1] for argument, values in conditional.get(number, {}).items()}]
        given += [{**given[0], argument: 77} for argument in given[0]]
        for at, arguments in enumerate(given):
            verdict = _filtered(program, arch, number, arguments)
            allowed = number in listed or (number in conditional and at == 0)
            assert verdict == (0x7FFF0000 if allowed else 0x00050000 | errno.ENOSYS), (number, arguments)
    assert _filtered(program, 0x40000003, 0, {}) == 0x80000000


def _filtered(program: list[tuple[int, ...]], arch: int, number: int, arguments: dict[int, int]) -> int:
    data = struct.pack("=IIQ6Q", number, arch, 0, *(arguments.get(at, 0) for at in range(6)))
    at = held = 0
    while True:
        code, equal, other, value = program[at]
        at += 1
        if code == 0x20:
            (held,) = struct.unpack_from("=I", data, value)
        elif code == 0x15:
            at += equal if held == value else other
        else:
            assert code == 0x06
            return value


@needs_bwrap
def test_programs_that_wait_for_themselves_run() -> None:
    """asyncio wakes itself through a pair of sockets, and alarms need timers."""
    source = (
        "import asyncio, signal\nsignal.signal(signal.SIGALRM, lambda *_: None)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.01)\nsignal.pause()\n"
        "async def add(): await asyncio.sleep(0.01); return 3\nprint(asyncio.run(add()))"
    )
    assert sandbox.run(source).stdout == b"3\n"


def _unsealed(line: list[str]) -> list[str]:
    """Make /etc a writable folder."""
    at = line.index("--dev")
    return [*line[:at], "--perms", "0777", "--tmpfs", "/etc", *line[at:]]
