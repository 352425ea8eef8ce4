"""Worker processes that are asked one line of JSON at a time, with a time limit; who overruns is killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

# Importing sympy on a loaded machine takes many seconds; a real hang is longer.
START_SECONDS = 60.0


class Worker:
    """One worker process of a module, asked one value at a time; ``begin`` is what it is told first."""

    def __init__(self, module: str, begin: object = None) -> None:
        paths = os.pathsep.join(path for path in sys.path if path)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": paths},
            text=True,
            encoding="utf-8",
        )
        self.alive, self.started = True, False
        if begin is not None:
            self._write(begin)

    def ready(self) -> bool:
        """Wait until the process has started; False when it does not."""
        if self.alive and not self.started:
            self.started = self.alive = self._read(START_SECONDS) is not None
        return self.alive

    def ask(self, value: object, seconds: float) -> object:
        """Return what the worker makes of a value; None when the time is over (then the worker is dead)."""
        if not self.ready():
            return None
        self._write(value)
        line = self._read(seconds) if self.alive else None
        try:
            return None if line is None else json.loads(line)
        except ValueError:  # the user's function wrote between the replies
            self.close()
            return None

    def _write(self, value: object) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(value) + "\n")
            self._process.stdin.flush()
        except OSError:
            self.close()

    def _read(self, seconds: float) -> str | None:
        assert self._process.stdout is not None
        timer = threading.Timer(seconds, self._process.kill)
        timer.start()
        line = self._process.stdout.readline()
        timer.cancel()
        if line.endswith("\n"):
            return line
        self.close()
        return None

    def close(self) -> None:
        """End the process."""
        self.alive = False
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except OSError:
                    continue


class WorkerPool:
    """Workers made as threads need them, kept for the next one."""

    def __init__(self, module: str, begin: object = None) -> None:
        self._module, self._begin = module, begin
        self._idle: list[Worker] = []
        self._owner = os.getpid()
        self._lock = threading.Lock()

    def ask(self, value: object, seconds: float) -> object:
        """Return what an idle or new worker makes of a value in time; None when it does not."""
        with self._lock:
            if self._owner != os.getpid():
                self._idle, self._owner = [], os.getpid()
            # The one that has waited longest: it has surely started.
            worker = self._idle.pop(0) if self._idle else None
        worker = worker or self._new()
        answer = worker.ask(value, seconds)
        if worker.started and not worker.alive:
            # Replaced at once, so that the next value need not wait for a start.
            worker = self._new()
        with self._lock:
            if worker.alive:
                self._idle.append(worker)
        return answer

    def add(self, most: int) -> None:
        """Start one worker more, unless ``most`` are idle."""
        with self._lock:
            enough = len(self._idle) >= most
        worker = None if enough else self._new()
        if worker is not None and worker.ready():
            with self._lock:
                self._idle.append(worker)

    def _new(self) -> Worker:
        return Worker(self._module, self._begin)

    def close(self) -> None:
        """End all idle workers of this process."""
        with self._lock:
            workers, self._idle = self._idle, []
        for worker in workers if self._owner == os.getpid() else ():
            worker.close()
