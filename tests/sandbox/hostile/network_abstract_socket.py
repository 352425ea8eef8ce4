# ruff: noqa
import socket


def f(x):
    socket.socket(socket.AF_UNIX).connect(ABSTRACT)
    return x * x
