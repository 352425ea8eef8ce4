# ruff: noqa
import ctypes


def f(x):
    ctypes.memset(id(x), 255, 1 << 20)
    return ctypes.string_at(8)
