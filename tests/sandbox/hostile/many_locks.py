# ruff: noqa
import fcntl
import os


def f(x):
    with open(os.__file__, "rb") as file:
        for at in range(0, 2000, 2):
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, at)
    return x * x
