# ruff: noqa
import socket


def f(x):
    socket.create_connection(("127.0.0.1", PORT), 2).sendall(b"escaped")
    return x * x
