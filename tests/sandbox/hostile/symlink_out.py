# ruff: noqa
import os


def f(x):
    os.symlink(CANARY, "/tmp/link")
    with open("/tmp/link", "r+") as file:
        file.write("escaped")
    return x * x
