# ruff: noqa
import os

for fd in range(3, 20):
    try:
        os.write(fd, b"[" * 200000)
    except OSError:
        pass
os._exit(0)
