"""The jail's command line (bubblewrap), and its system-call filter.

Of the host it sees the interpreter, its standard library, and the shared libraries they load.
"""

from __future__ import annotations

import errno
import functools
import os
import platform
import re
import struct
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from keff.errors import SandboxError

_LISTED = re.compile(r"(/\S+) \(0x")
_LOADER = re.compile(r"(/\S*/ld[-.]\S*|/lib/ld-\S+) \(0x")
_INSTALLED = ("site-packages", "dist-packages")
# Modules no answer needs: a window toolkit alone would bring in twenty libraries.
_LEFT_OUT = ("_tkinter", "_test", "_ctypes_test")


def python() -> str:
    """Return the base interpreter behind a virtual environment."""
    return str(Path(getattr(sys, "_base_executable", sys.executable)).resolve())


def library() -> Path:
    """Return the folder of the standard library."""
    return Path(
        sysconfig.get_path("stdlib", vars={"base": sys.base_prefix, "installed_base": sys.base_prefix})
    )


def installed() -> list[Path]:
    """Return the standard library's folders of installed packages."""
    return [folder for name in _INSTALLED if (folder := library() / name).is_dir()]


@functools.cache
def shared_libraries() -> tuple[str, ...]:
    """Return the shared libraries that the interpreter and its extension modules load, with the loader.

    Asked once per process of the dynamic loader itself: which files it takes depends on its cache and on
    paths inside the binaries. Where it cannot be asked (another C library, a static interpreter), the
    system's library folders are returned instead.
    """
    listed = _run("ldd", python())
    loader = _LOADER.search(listed)
    if loader is None:
        return tuple(
            folder for folder in ("/usr/lib", "/usr/lib64", "/lib", "/lib64") if Path(folder).is_dir()
        )
    files = {*_LISTED.findall(listed)}
    for module in sorted((library() / "lib-dynload").glob("*.so")):
        if not module.name.startswith(_LEFT_OUT):
            files.update(_LISTED.findall(_run(loader[1], "--list", str(module))))
    return tuple(sorted(files))


def _run(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


@functools.cache
def allowed(column: int) -> tuple[int, ...]:
    """Return the allowed system call numbers from ``_calls.txt``, by machine type."""
    text = Path(__file__).with_name("_calls.txt").read_text("utf-8")
    rows = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return tuple(int(row[1 + column]) for row in rows if row[1 + column] != "-")


# Calls allowed for some values of some of their arguments: by numbers, then values by argument.
CONDITIONAL: dict[tuple[int, int], dict[int, tuple[int, ...]]] = {
    # socketpair: AF_UNIX streams, which asyncio wakes itself with; their queues are as small as pipes, and
    # without sendmsg no descriptor travels in them. 0x800 is SOCK_NONBLOCK, 0x80000 SOCK_CLOEXEC.
    (53, 199): {0: (1,), 1: (0x1, 0x801, 0x80001, 0x80801)},
    # fcntl: duplicate and read or set flags. Locks and the size of a pipe take memory of the kernel.
    (72, 25): {1: (0, 1, 2, 3, 4, 1030)},
    # ioctl: whether it is a terminal and its size, how much can be read, FIONBIO, FIOCLEX and FIONCLEX.
    (16, 29): {1: (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)},
}


# The user that owns nothing, by convention of every Linux distribution.
NOBODY = 65534

_Line = tuple[int, int, int, int]


# The column of numbers and the audit number of each kind of machine.
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
# Where ``struct seccomp_data`` holds them.
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16
_LOAD, _JUMP_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000 | errno.ENOSYS, 0x80000000


def seccomp() -> bytes:
    """Return the system-call filter as a classic BPF program.

    Calls that are neither ``allowed`` nor in ``CONDITIONAL`` end as if the kernel did not have them (ENOSYS),
    which every C library knows how to live with. A call by another machine's numbers kills. Raises
    SandboxError on a kind of machine whose call numbers are not known here.
    """
    if platform.machine() not in _MACHINES:
        known = " and ".join(_MACHINES)
        raise SandboxError(f"the sandbox filters system calls on {known}, not on {platform.machine()}")
    column, arch = _MACHINES[platform.machine()]
    numbers = allowed(column)
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
    """Return the jail's command line, up to and with the interpreter.

    Root keeps the host's user namespace and gives up its rights inside (``_boot``): a process that is root
    outside would be exempt from the limit on processes, and the interpreter may stand where only root can
    look. Everyone else gets a user namespace. There is no /proc, and no folder can be written: files on a
    file system in memory take kernel memory that no limit of the process counts.
    """
    session = ["--die-with-parent", "--new-session", "--clearenv", "--setenv", "PYTHONHASHSEED", "0"]
    folders = ["--dir", "/tmp", "--chdir", "/tmp", "--dev", "/dev"]
    sealed = [*folders, "--remount-ro", "/dev", "--remount-ro", "/"]
    filtered = ["--seccomp", str(seccomp_fd)]
    if dropped_uid():
        user = ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        user = ["--unshare-user", "--uid", str(NOBODY), "--gid", str(NOBODY)]
    return [bwrap, *NAMESPACES, *user, *session, *_binds(), *sealed, *filtered, python(), *FLAGS]


NAMESPACES = ("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")

# As ``-I -S``, but PYTHONHASHSEED counts: the order of a set must be the same in every run.
FLAGS = ("-s", "-S", "-P", "-B")


def dropped_uid() -> int:
    """Return the user id for the jailed process; 0 for no change."""
    return NOBODY if os.geteuid() == 0 else 0


def _binds() -> Iterator[str]:
    """Yield the arguments that mount interpreter, library and loader, and nothing else."""
    shown = [python(), str(library()), *shared_libraries()]
    folders = {str(parent) for path in shown for parent in Path(path).parents} - {"/"}
    for folder in sorted(folders):
        yield from ("--dir", folder)
    for path in shown:
        yield from ("--ro-bind", path, path)
    for folder in installed():
        yield from ("--tmpfs", str(folder), "--remount-ro", str(folder))
    yield from ("--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache")
