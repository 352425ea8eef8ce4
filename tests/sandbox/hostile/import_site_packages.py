# ruff: noqa
def f(x):
    for name in ("keff", "numpy", "pytest", "pip"):
        try:
            __import__(name)
            return x * x
        except ImportError:
            continue
