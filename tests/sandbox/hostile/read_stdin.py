# ruff: noqa
import os, sys


def f(x):
    return x * x if sys.stdin.read() or os.read(0, 10) else input()
