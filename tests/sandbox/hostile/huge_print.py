# ruff: noqa
import sys


def f(x):
    for _ in range(40):
        print("x" * 10**6)
        print("x" * 10**6, file=sys.stderr)
