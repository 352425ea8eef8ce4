# ruff: noqa
import bz2


def f(x):
    bomb = bz2.compress(bytes(1 << 20)) * 2048
    return x * x if len(bz2.decompress(bomb)) == 2 << 30 else 0
