# ruff: noqa
import os


def f(x):
    return x * x if [os.open("/dev/null", os.O_RDONLY) for _ in range(1000)] else 0
