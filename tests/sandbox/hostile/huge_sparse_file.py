# ruff: noqa
def f(x):
    with open("/tmp/sparse", "wb") as file:
        file.truncate(1 << 40)
    return x * x
