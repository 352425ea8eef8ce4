# ruff: noqa
import os, signal

os.kill(os.getpid(), signal.SIGSTOP)
