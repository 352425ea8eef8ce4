"""The command line of the jail, and the filter of system calls."""

from __future__ import annotations

import errno
import os
import platform
import struct
from collections.abc import Iterator
from pathlib import Path

from keff.errors import SandboxError
from keff.sandbox._calls import CALLS, CONDITIONAL
from keff.sandbox._files import installed, library, python, shared_libraries

NOBODY = 65534

_Line = tuple[int, int, int, int]
_HASH_SEED = ("--setenv", "PYTHONHASHSEED", "0")


# The column of ``CALLS`` and the audit number of each kind of machine.
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
# Where ``struct seccomp_data`` holds them.
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16
_LOAD, _JUMP_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000 | errno.ENOSYS, 0x80000000


def seccomp() -> bytes:
    """Return the filter of system calls as a classic BPF program.

    Calls that are not in ``CALLS`` or ``CONDITIONAL`` end as if the kernel did not have them (ENOSYS), which
    every C library knows how to live with. A call by another machine's numbers kills. Raises SandboxError on
    a kind of machine whose call numbers are not known here.
    """
    if platform.machine() not in _MACHINES:
        known = " and ".join(_MACHINES)
        raise SandboxError(f"the sandbox filters system calls on {known}, not on {platform.machine()}")
    column, arch = _MACHINES[platform.machine()]
    numbers = [call[column] for call in CALLS.values() if call[column] is not None]
    program = [
        (_LOAD, 0, 0, _ARCH),
        (_JUMP_EQUAL, 1, 0, arch),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    for call, conditions in CONDITIONAL.items():
        checks: list[_Line] = []
        for argument, values in conditions.items():
            # The kernel reads 32 bits of these arguments: the low ones, which come first on both machines.
            checks.append((_LOAD, 0, 0, _ARGUMENTS + 8 * argument))
            left = len(values)
            checks += [(_JUMP_EQUAL, left - at, 0, value) for at, value in enumerate(values)]
            checks.append((_RETURN, 0, 0, _REFUSE))
        program += [(_JUMP_EQUAL, 0, len(checks) + 1, call[column]), *checks, (_RETURN, 0, 0, _ALLOW)]
    left = len(numbers)
    program += [(_JUMP_EQUAL, left - at, 0, number) for at, number in enumerate(numbers)]
    program += [(_RETURN, 0, 0, _REFUSE), (_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("=HBBI", *line) for line in program)


def command(bwrap: str, seccomp_fd: int) -> list[str]:
    """Return the command line up to and with the interpreter.

    Root keeps the host's user namespace and gives up its rights inside (``_boot``): a process that is root
    outside would be exempt from the limit on processes, and the interpreter may stand where only root can
    look. Everyone else gets a user namespace. There is no /proc, and no folder can be written: files on a
    file system in memory take kernel memory that no limit of the process counts.
    """
    filtered = ["--seccomp", str(seccomp_fd)]
    sealed = [
        "--dir",
        "/tmp",
        "--chdir",
        "/tmp",
        "--dev",
        "/dev",
        "--remount-ro",
        "/dev",
        "--remount-ro",
        "/",
    ]
    session = ["--die-with-parent", "--new-session", "--clearenv", *_HASH_SEED]
    return [bwrap, *_namespaces(), *session, *_binds(), *sealed, *filtered, python(), *FLAGS]


# As ``-I -S``, but PYTHONHASHSEED counts: the order of a set must be the same in every run.
FLAGS = ("-s", "-S", "-P", "-B")


def dropped_uid() -> int:
    """Return the user that the jailed process must become, 0 for no change."""
    return NOBODY if os.geteuid() == 0 else 0


def _namespaces() -> list[str]:
    spaces = ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    if dropped_uid():
        return [*spaces, "--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    return [*spaces, "--unshare-user", "--uid", str(NOBODY), "--gid", str(NOBODY)]


def _binds() -> Iterator[str]:
    """Yield the arguments that show the interpreter, its library and loader, and nothing else of the host."""
    shown = [python(), str(library()), *shared_libraries()]
    folders = {str(parent) for path in shown for parent in Path(path).parents} - {"/"}
    for folder in sorted(folders):
        yield from ("--dir", folder)
    for path in shown:
        yield from ("--ro-bind", path, path)
    for folder in installed():
        yield from ("--tmpfs", str(folder), "--remount-ro", str(folder))
    yield from ("--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache")
