# ruff: noqa
def f(x):
    for number in range(64):
        with open(f"/tmp/{number}", "wb") as file:
            file.write(bytes(1 << 20))
    return x * x
