# ruff: noqa
import os


def f(x):
    for fd in range(3, 20):
        try:
            while True:
                os.write(fd, b"x" * 65536)
        except OSError:
            continue
