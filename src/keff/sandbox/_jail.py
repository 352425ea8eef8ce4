"""The command line of the jail, and the filter of system calls."""

from __future__ import annotations

import os
import platform
import struct
from collections.abc import Iterator
from pathlib import Path

from keff.sandbox._files import installed, library, python, shared_libraries

NOBODY = 65534

_HASH_SEED = ("--setenv", "PYTHONHASHSEED", "0")
# The names: ptrace, process_vm_readv, process_vm_writev (other processes); unshare, setns, mount, umount2,
# pivot_root, chroot, open_tree, move_mount, fsopen, open_by_handle_at (other worlds); shmget, memfd_create,
# msgget, semget, mq_open (memory that RLIMIT_AS does not count, in the kernel too); keyctl, add_key,
# request_key, bpf, perf_event_open, userfaultfd, io_uring_setup (wide kernel interfaces that no answer
# needs).
_DENIED = {
    "x86_64": (
        0xC000003E,
        (
            101,
            310,
            311,
            272,
            308,
            165,
            166,
            155,
            161,
            428,
            429,
            430,
            304,
            29,
            319,
            68,
            64,
            240,
            250,
            248,
            249,
            321,
            298,
            323,
            425,
        ),
    ),
    "aarch64": (
        0xC00000B7,
        (
            117,
            270,
            271,
            97,
            268,
            40,
            39,
            41,
            51,
            428,
            429,
            430,
            265,
            194,
            279,
            186,
            190,
            180,
            219,
            217,
            218,
            280,
            241,
            282,
            425,
        ),
    ),
}
_LOAD, _JUMP_EQUAL, _JUMP_FROM, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050001, 0x80000000
_FOREIGN_ABI = 0x40000000


def seccomp() -> bytes:
    """Return the filter as a classic BPF program.

    Empty on a machine whose call numbers are not known here.
    """
    if platform.machine() not in _DENIED:
        return b""
    arch, denied = _DENIED[platform.machine()]
    left = len(denied)
    program = [
        (_LOAD, 0, 0, 4),
        (_JUMP_EQUAL, 1, 0, arch),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),
        (_JUMP_FROM, left + 1, 0, _FOREIGN_ABI),
        *((_JUMP_EQUAL, left - at, 0, number) for at, number in enumerate(denied)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    ]
    return b"".join(struct.pack("=HBBI", *line) for line in program)


def command(bwrap: str, seccomp_fd: int | None) -> list[str]:
    """Return the command line up to and with the interpreter.

    Root keeps the host's user namespace and gives up its rights inside (``_boot``): a process that is root
    outside would be exempt from the limit on processes, and the interpreter may stand where only root can
    look. Everyone else gets a user namespace. There is no /proc, and no folder can be written: files on a
    file system in memory take kernel memory that no limit of the process counts.
    """
    filtered = [] if seccomp_fd is None else ["--seccomp", str(seccomp_fd)]
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


FLAGS = ("-s", "-S", "-P", "-B")
"""As ``-I -S``, but PYTHONHASHSEED counts: the order of a set must be the same in every run."""


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
