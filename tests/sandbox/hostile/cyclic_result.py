# ruff: noqa
def f(x):
    value = {}
    value["self"] = [value]
    return value
