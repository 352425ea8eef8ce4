# ruff: noqa
def f(x):
    value = []
    for _ in range(10**5):
        value = [value]
    return value
