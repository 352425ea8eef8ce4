# ruff: noqa
import os, sys

os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(300)", CANARY])


def f(x):
    return x * x
