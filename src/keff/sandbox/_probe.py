"""Escape tests inside the jail, reported as JSON.

Sent as text to the jailed interpreter, never imported. stdin: JSON with a ``port`` of 127.0.0.1 on which
the host listens, ``hidden`` paths that must not be seen, ``sealed`` folders that must not be written, and
``memory``, more bytes than may be had.
"""

# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
import ctypes
import fcntl
import json
import os
import socket
import sys
from pathlib import Path

facts = json.load(sys.stdin)
libc = ctypes.CDLL(None)
# From linux/sched.h: Python names it from 3.12 on only.
CLONE_NEWUSER = 0x10000000
# Its number on every machine; the C library has no name for it.
MEMFD_SECRET = 447


def connect():
    socket.create_connection(("127.0.0.1", facts["port"]), 1).close()


def interfaces():
    if all(name == "lo" for _, name in socket.if_nameindex()):
        raise OSError


def open_sockets():
    """Try to open a socket of every family, and a pair of datagram or descriptor-passing ones."""
    for family in range(socket.AF_UNIX, 64):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
            if libc.socket(family, kind, 0) >= 0:
                return
    if libc.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM, 0, (ctypes.c_int * 2)()) < 0:
        raise OSError


def see():
    if not any(Path(path).exists() for path in facts["hidden"]):
        raise OSError


def write():
    for folder in facts["sealed"]:
        try:
            os.close(os.open(f"{folder}/keff-probe", os.O_CREAT | os.O_WRONLY))
            return
        except OSError:
            continue
    raise OSError


def queue():
    """Try to open System V and POSIX message queues, which hold kernel memory."""
    # Key 0 is IPC_PRIVATE and 0o1000 is IPC_CREAT: a new queue, which is what costs memory.
    if libc.msgget(0, 0o600 | 0o1000) < 0 and libc.mq_open(b"/keff", os.O_CREAT | os.O_RDWR, 0o600, None) < 0:
        raise OSError


def hide_memory():
    """Try to allocate memory behind a descriptor, outside the address space limit."""
    if libc.memfd_create(b"keff", 0) < 0 and libc.syscall(MEMFD_SECRET, 0) < 0:
        raise OSError


def lock():
    """Try to lock a part of a file, which takes kernel memory."""
    with Path(os.__file__).open("rb") as file:
        fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB, 1)


def become_root():
    if os.getuid() != 0:
        os.setuid(0)


def new_world():
    if libc.unshare(CLONE_NEWUSER) != 0:
        raise OSError


def allocate():
    bytearray(facts["memory"])


def fork():
    if os.fork() == 0:
        os._exit(0)


ATTEMPTS = {
    "network": connect,
    "network interfaces": interfaces,
    "sockets": open_sockets,
    "files of the host": see,
    "a writable system": write,
    "message queues": queue,
    "memory that no limit counts": hide_memory,
    "file locks": lock,
    "root": become_root,
    "a new user namespace": new_world,
    "memory": allocate,
    "fork": fork,
}


def succeeded(attempt):
    try:
        attempt()
    except (OSError, MemoryError):
        return False
    return True


print(json.dumps([name for name, attempt in ATTEMPTS.items() if succeeded(attempt)]))
