# ruff: noqa
import itertools


def f(x):
    return itertools.count()
