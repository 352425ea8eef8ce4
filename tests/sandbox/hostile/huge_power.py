# ruff: noqa
def f(x):
    return 9**9**9
