# ruff: noqa
def f(x):
    return x * x if open(CANARY).read() else 0
