# ruff: noqa
def f(x):
    while True:
        pass
