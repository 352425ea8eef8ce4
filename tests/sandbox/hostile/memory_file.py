# ruff: noqa
import os


def f(x):
    return x * x if os.memfd_create("hidden") >= 0 else 0
