"""Run a program in the jail, after a proof that the jail holds."""

from __future__ import annotations

import functools
import json
import os
import shutil
import socket
import tempfile
from pathlib import Path

from keff.errors import SandboxError
from keff.sandbox._files import library, python
from keff.sandbox._jail import FLAGS, command, dropped_uid, seccomp
from keff.sandbox._process import Limits, ProcessOutcome, execute

_HERE = Path(__file__).parent
_BOOT = (_HERE / "_boot.py").read_text("utf-8")
_PROBE = (_HERE / "_probe.py").read_text("utf-8")
_INSTALL = "apt-get install bubblewrap (0.7 or newer)"


def run(
    source: str, stdin: bytes = b"", *, limits: Limits | None = None, unsafe: bool = False
) -> ProcessOutcome:
    """Run Python source text (below 128 KiB) in the jail and return how it ended.

    The standard library is there, site packages are not; stdin, stdout and stderr are pipes; no folder can
    be written. ``unsafe`` runs a plain process with the same limits of
    time, memory and output but with the caller's rights, network and files. Raises SandboxError when
    bubblewrap is missing, does not isolate (see ``preflight``) or does not start.
    """
    if not unsafe:
        preflight()
    return _run(source, stdin, limits or Limits(), unsafe=unsafe)


@functools.cache
def preflight() -> None:
    """Prove once per process that the jail holds, or raise SandboxError that says what does not.

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
    if unsafe:
        boot = ["-c", _BOOT, "0", limits.rlimits(), source]
        outcome = execute([python(), *FLAGS, *boot], stdin, limits)
    else:
        outcome = _jailed(source, stdin, limits)
    if not outcome.started:
        raise SandboxError(f"the sandbox did not start ({_last_line(outcome)}): {_INSTALL}")
    return outcome


def _jailed(source: str, stdin: bytes, limits: Limits) -> ProcessOutcome:
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        raise SandboxError(f"scoring code needs bubblewrap: {_INSTALL}")
    boot = ["-c", _BOOT, str(dropped_uid()), limits.rlimits(), source]
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
