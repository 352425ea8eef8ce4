# ruff: noqa
import os


def f(x):
    os.chroot("/tmp")
    return x * x
