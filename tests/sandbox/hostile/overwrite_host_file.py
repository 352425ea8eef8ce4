# ruff: noqa
import os


def f(x):
    os.makedirs(os.path.dirname(CANARY), exist_ok=True)
    with open(CANARY, "w") as file:
        file.write("escaped")
    return 0
