# ruff: noqa
import sys

sys.setrecursionlimit(10**9)


def f(x):
    return f(x + 1) + 1
