"""Execution of untrusted code in a jailed process, after a test that the jail holds.

A process is started, fed, and its output taken within bounds of time and size; a program runs in the jail
after a proof that the jail holds.
"""

from __future__ import annotations

import functools
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from keff.errors import SandboxError
from keff.sandbox._jail import FLAGS, command, dropped_uid, library, python, seccomp

Status = Literal["exited", "timeout", "flood"]

# How long a jail may take to start: on a busy machine that says nothing about the program.
START_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Resource limits of one execution.

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
    """Result of an execution: how it ended, and its output.

    ``status``: ``exited`` (see ``code``), ``timeout`` or ``flood`` (too much output; killed). ``started``
    says whether the program was reached at all.
    """

    status: Status
    code: int
    stdout: bytes
    stderr: bytes
    started: bool


def execute(command: Sequence[str], stdin: bytes, limits: Limits, fds: Sequence[int] = ()) -> ProcessOutcome:
    """Run a command to its end or limits, and kill its session at a limit."""
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
    out, err = bytearray(), bytearray()
    with process:
        status = _exchange(process, stdin, (out, err), limits)
        if status != "exited":
            os.killpg(process.pid, signal.SIGKILL)
    return ProcessOutcome(
        status, process.returncode, bytes(out[1:]), bytes(err), started=out.startswith(b"\0")
    )


def _exchange(
    process: subprocess.Popen[bytes], text: bytes, outputs: tuple[bytearray, bytearray], limits: Limits
) -> Status:
    """Feed a process and read its output to the end, timed from its first byte."""
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    left = memoryview(text)
    started, deadline = False, time.monotonic() + START_SECONDS
    with selectors.DefaultSelector() as ready:
        ready.register(process.stdin, selectors.EVENT_WRITE)
        for stream, output in zip((process.stdout, process.stderr), outputs, strict=True):
            ready.register(stream, selectors.EVENT_READ, output)
        while ready.get_map():
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return "timeout"
            for key, _ in ready.select(remaining):
                if key.data is None:
                    left = _feed(ready, process.stdin, left)
                    continue
                chunk = os.read(key.fd, 1 << 16)
                if not started:
                    started, deadline = True, time.monotonic() + limits.seconds
                key.data.extend(chunk)
                if not chunk:
                    ready.unregister(key.fileobj)
                elif len(key.data) > limits.output:
                    return "flood"
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return "timeout"
    return "exited"


def _feed(ready: selectors.BaseSelector, stdin: IO[bytes], left: memoryview) -> memoryview:
    """Write input without blocking, and close the pipe when done or broken."""
    try:
        # 512 bytes are the least that POSIX lets a pipe take at once, so this never blocks after a poll.
        left = left[os.write(stdin.fileno(), left[:512]) :] if left else left
    except BrokenPipeError:
        left = left[:0]
    if not left:
        ready.unregister(stdin)
        stdin.close()
    return left


_HERE = Path(__file__).parent
_BOOT = (_HERE / "_boot.py").read_text("utf-8")
_PROBE = (_HERE / "_probe.py").read_text("utf-8")
_INSTALL = "apt-get install bubblewrap (0.7 or newer)"


def run(
    source: str, stdin: bytes = b"", *, limits: Limits | None = None, unsafe: bool = False
) -> ProcessOutcome:
    """Run Python source text (below 128 KiB) in the jail; returns the outcome.

    The standard library is there, site packages are not; stdin, stdout and stderr are pipes; no folder can
    be written. ``unsafe`` runs a plain process with the same limits of time, memory and output but with the
    caller's rights, network and files. Raises SandboxError when bubblewrap is missing, does not isolate (see
    ``preflight``) or does not start.
    """
    if not unsafe:
        preflight()
    return _run(source, stdin, limits or Limits(), unsafe=unsafe)


@functools.cache
def preflight() -> None:
    """Test once per process that the jail holds; raises SandboxError with what does not.

    Attempts from inside: network, sockets of any family, files of the host, writing, becoming root, new user
    namespaces, memory (also such as no limit counts), message queues, file locks, fork; and a loop that must
    be stopped in time. A jail that did not start is tried once more: a machine out of processes or memory
    for a moment is no proof of anything.
    """
    try:
        broken = _break_out()
    except SandboxError:
        broken = _break_out()
    endless = _run("while True: pass", b"", Limits(seconds=0.3), unsafe=False)
    if endless.status != "timeout":
        broken.append("endless time")
    if broken:
        raise SandboxError(f"the sandbox does not hold, code inside can have {', '.join(broken)}: {_INSTALL}")


def _break_out() -> list[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener, tempfile.NamedTemporaryFile() as secret:
        facts = {
            "port": listener.getsockname()[1],
            "hidden": [
                secret.name,
                "/etc/passwd",
                "/etc/shadow",
                "/var",
                "/proc/1",
                "/usr/share",
                "/usr/bin/env",
            ],
            "sealed": ["/", "/tmp", str(library()), "/dev", "/dev/shm", "/etc"],
            "memory": 10 << 30,
        }
        outcome = _run(_PROBE, json.dumps(facts).encode(), Limits(), unsafe=False)
    try:
        return json.loads(outcome.stdout)
    except ValueError:
        raise SandboxError(f"the sandbox cannot be probed ({_last_line(outcome)}): {_INSTALL}") from None


def _run(source: str, stdin: bytes, limits: Limits, *, unsafe: bool) -> ProcessOutcome:
    boot = ["-c", _BOOT, str(0 if unsafe else dropped_uid()), limits.rlimits(), source]
    outcome = (
        execute([python(), *FLAGS, *boot], stdin, limits) if unsafe else _run_in_jail(boot, stdin, limits)
    )
    if not outcome.started:
        raise SandboxError(f"the sandbox did not start ({_last_line(outcome)}): {_INSTALL}")
    return outcome


def _run_in_jail(boot: Sequence[str], stdin: bytes, limits: Limits) -> ProcessOutcome:
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        raise SandboxError(f"scoring code needs bubblewrap: {_INSTALL}")
    rules = seccomp()
    reader, writer = os.pipe()
    try:
        os.write(writer, rules)
        os.close(writer)
        return execute([*command(bwrap, reader), *boot], stdin, limits, (reader,))
    finally:
        os.close(reader)


def _last_line(outcome: ProcessOutcome) -> str:
    text = outcome.stderr.decode("utf-8", "replace").strip()
    return text.rsplit("\n", 1)[-1] if text else f"{outcome.status}, code {outcome.code}"
