# ruff: noqa
import ctypes

libc = ctypes.CDLL(None, use_errno=True)


def f(x):
    made = [
        (family, kind) for family in range(50) for kind in (1, 2, 3, 5) if libc.socket(family, kind, 0) >= 0
    ]
    return x * x if made else 0
