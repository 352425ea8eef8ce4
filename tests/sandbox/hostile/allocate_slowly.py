# ruff: noqa
def f(x):
    blocks = []
    try:
        while len(blocks) < 2048:
            blocks.append(b"x" * (1 << 20))
    except MemoryError:
        return len(blocks[:1])
    return x * x
