# ruff: noqa
import socket


def f(x):
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).close()
    return x * x
