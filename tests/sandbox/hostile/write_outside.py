# ruff: noqa
import os, sys


def f(x):
    for folder in (HOME, "/", "/etc", "/usr/lib", "/dev", "/dev/shm", "/var/tmp", sys.base_prefix):
        try:
            os.makedirs(folder, exist_ok=True)
            open(os.path.join(folder, "escaped"), "w").close()
            return x * x
        except OSError:
            continue
