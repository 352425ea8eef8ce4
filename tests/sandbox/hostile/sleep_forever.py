# ruff: noqa
import time


def f(x):
    time.sleep(10**6)
    return x * x
