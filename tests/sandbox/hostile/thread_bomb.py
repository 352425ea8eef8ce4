# ruff: noqa
import threading, time


def f(x):
    for _ in range(500):
        threading.Thread(target=time.sleep, args=(300,)).start()
    return x * x
