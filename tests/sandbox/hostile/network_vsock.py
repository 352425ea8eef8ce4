# ruff: noqa
import socket


def f(x):
    socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).close()
    return x * x
