"""The command line of the jail, and the filter of system calls.

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
    """Return the base interpreter, the one behind a virtual environment."""
    return str(Path(getattr(sys, "_base_executable", sys.executable)).resolve())


def library() -> Path:
    """Return the folder of the standard library."""
    return Path(
        sysconfig.get_path("stdlib", vars={"base": sys.base_prefix, "installed_base": sys.base_prefix})
    )


def installed() -> list[Path]:
    """Return the folders inside the standard library that hold other people's packages."""
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


CALLS: dict[str, tuple[int, int | None]] = {
    "read": (0, 63),
    "write": (1, 64),
    "open": (2, None),
    "close": (3, 57),
    "stat": (4, None),
    "fstat": (5, 80),
    "lstat": (6, None),
    "poll": (7, None),
    "lseek": (8, 62),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "munmap": (11, 215),
    "brk": (12, 214),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "pread64": (17, 67),
    "pwrite64": (18, 68),
    "readv": (19, 65),
    "writev": (20, 66),
    "access": (21, None),
    "pipe": (22, None),
    "select": (23, None),
    "sched_yield": (24, 124),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "dup": (32, 23),
    "dup2": (33, None),
    "pause": (34, None),
    "nanosleep": (35, 101),
    "getitimer": (36, 102),
    "alarm": (37, None),
    "setitimer": (38, 103),
    "getpid": (39, 172),
    "sendto": (44, 206),
    "recvfrom": (45, 207),
    "execve": (59, 221),
    "exit": (60, 93),
    "wait4": (61, 260),
    "kill": (62, 129),
    "uname": (63, 160),
    "fsync": (74, 82),
    "ftruncate": (77, 46),
    "getcwd": (79, 17),
    "chdir": (80, 49),
    "fchdir": (81, 50),
    "readlink": (89, None),
    "umask": (95, 166),
    "gettimeofday": (96, 169),
    "getrlimit": (97, 163),
    "getrusage": (98, 165),
    "sysinfo": (99, 179),
    "times": (100, 153),
    "getuid": (102, 174),
    "getgid": (104, 176),
    "geteuid": (107, 175),
    "getegid": (108, 177),
    "getppid": (110, 173),
    "getpgrp": (111, None),
    "getgroups": (115, 158),
    "setgroups": (116, 159),
    "setresuid": (117, 147),
    "getresuid": (118, 148),
    "setresgid": (119, 149),
    "getresgid": (120, 150),
    "getpgid": (121, 155),
    "getsid": (124, 156),
    "rt_sigpending": (127, 136),
    "rt_sigtimedwait": (128, 137),
    "rt_sigsuspend": (130, 133),
    "sigaltstack": (131, 132),
    "statfs": (137, 43),
    "fstatfs": (138, 44),
    "getpriority": (140, 141),
    "arch_prctl": (158, None),
    "setrlimit": (160, 164),
    "gettid": (186, 178),
    "tkill": (200, 130),
    "time": (201, None),
    "futex": (202, 98),
    "sched_getaffinity": (204, 123),
    "getdents64": (217, 61),
    "set_tid_address": (218, 96),
    "restart_syscall": (219, 128),
    "fadvise64": (221, 223),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115),
    "exit_group": (231, 94),
    "epoll_wait": (232, None),
    "epoll_ctl": (233, 21),
    "tgkill": (234, 131),
    "openat": (257, 56),
    "newfstatat": (262, 79),
    "readlinkat": (267, 78),
    "faccessat": (269, 48),
    "pselect6": (270, 72),
    "ppoll": (271, 73),
    "set_robust_list": (273, 99),
    "get_robust_list": (274, 100),
    "epoll_pwait": (281, 22),
    "eventfd2": (290, 19),
    "epoll_create1": (291, 20),
    "dup3": (292, 24),
    "pipe2": (293, 59),
    "prlimit64": (302, 261),
    "getcpu": (309, 168),
    "getrandom": (318, 278),
    "statx": (332, 291),
    "rseq": (334, 293),
    "faccessat2": (439, 439),
}

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
