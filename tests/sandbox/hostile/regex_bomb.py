# ruff: noqa
import re


def f(x):
    return re.match("(a|aa)+$", "a" * 64 + "b") or x
