"""Start a process, feed it, and take its output within bounds of time and size."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Literal

Status = Literal["exited", "timeout", "flood"]

# How long a jail may take to start: on a busy machine that says nothing about the program.
START_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What one execution may use.

    ``seconds`` of wall time, counted from the program's start, and ``cpu`` seconds of processor time (whole
    ones), ``memory`` bytes of address space, ``file_bytes`` in one file, ``open_files``, ``processes`` of the
    user (1: neither fork nor thread), ``output`` bytes on stdout and stderr each. The wall limit is the wider
    one, so that a busy machine does not decide what passes.
    """

    seconds: float = 20.0
    cpu: int = 10
    memory: int = 512 << 20
    file_bytes: int = 8 << 20
    open_files: int = 64
    processes: int = 1
    output: int = 256 << 10

    def rlimits(self) -> str:
        """Return the limits in the form that the boot program reads."""
        sizes = f"AS={self.memory},FSIZE={self.file_bytes},NOFILE={self.open_files},CORE=0"
        return f"CPU={self.cpu},{sizes},NPROC={self.processes}"


@dataclass(frozen=True, slots=True)
class ProcessOutcome:
    """How an execution ended.

    ``status``: ``exited`` (see ``code``), ``timeout`` or ``flood`` (too much output; killed). ``started``
    says whether the program was reached at all.
    """

    status: Status
    code: int
    stdout: bytes
    stderr: bytes
    started: bool


def execute(command: Sequence[str], stdin: bytes, limits: Limits, fds: Sequence[int] = ()) -> ProcessOutcome:
    """Run a command to its end or its limits, whichever comes first, and kill its session at a limit."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        cwd="/",
        env={"PYTHONHASHSEED": "0"},
        pass_fds=tuple(fds),
        start_new_session=True,
    )
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    out, err = bytearray(), bytearray()
    clock = _Clock(limits.seconds)
    with process:
        status = _exchange(process.stdin, stdin, {process.stdout: out, process.stderr: err}, clock, limits)
        if status == "exited":
            try:
                process.wait(max(0.0, clock.remaining()))
            except subprocess.TimeoutExpired:
                status = "timeout"
        if status != "exited":
            os.killpg(process.pid, signal.SIGKILL)
    return ProcessOutcome(
        status, process.returncode, bytes(out[1:]), bytes(err), started=out.startswith(b"\0")
    )


class _Clock:
    """The time left to a process: its limit counts from its first sign of life."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._started = False
        self._deadline = time.monotonic() + START_SECONDS

    def start(self) -> None:
        """Begin to count, once."""
        if not self._started:
            self._started = True
            self._deadline = time.monotonic() + self._seconds

    def remaining(self) -> float:
        """Return the seconds that are left."""
        return self._deadline - time.monotonic()


def _exchange(
    stdin: IO[bytes], text: bytes, outputs: dict[IO[bytes], bytearray], clock: _Clock, limits: Limits
) -> Status:
    left = memoryview(text)
    with selectors.DefaultSelector() as ready:
        ready.register(stdin, selectors.EVENT_WRITE)
        for stream in outputs:
            ready.register(stream, selectors.EVENT_READ, outputs[stream])
        while ready.get_map():
            remaining = clock.remaining()
            if remaining <= 0:
                return "timeout"
            for key, _ in ready.select(remaining):
                if key.data is None:
                    left = _feed(key.fd, left)
                    if not left:
                        ready.unregister(stdin)
                        stdin.close()
                    continue
                chunk = os.read(key.fd, 1 << 16)
                clock.start()
                key.data.extend(chunk)
                if not chunk:
                    ready.unregister(key.fileobj)
                elif len(key.data) > limits.output:
                    return "flood"
    return "exited"


def _feed(fd: int, left: memoryview) -> memoryview:
    """Write what cannot block; a reader that is gone wants no more."""
    try:
        return left[os.write(fd, left[:512]) :] if left else left
    except BrokenPipeError:
        return left[:0]
