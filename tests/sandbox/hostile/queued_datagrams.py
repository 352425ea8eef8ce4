# ruff: noqa
import array
import socket


def f(x):
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    left.setblocking(False)
    left.send(b"x" * 60000)
    return x * x
