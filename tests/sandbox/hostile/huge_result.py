# ruff: noqa
def f(x):
    return "x" * 10**7
