# ruff: noqa
import subprocess


def f(x):
    subprocess.run(["/bin/sh", "-c", "true"], check=True)
    return x * x
