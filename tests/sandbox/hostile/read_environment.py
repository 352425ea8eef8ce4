# ruff: noqa
import os


def f(x):
    return x * x if "KEFF_TEST_SECRET" in os.environ else 0
