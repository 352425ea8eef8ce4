# ruff: noqa
def f(x):
    block = bytearray(10 << 30)
    return x * x if block else 0
