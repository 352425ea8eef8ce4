# ruff: noqa
import socket


def f(x):
    left, right = socket.socketpair()
    socket.send_fds(left, [b"x"], [right.fileno()])
    return x * x
