"""Forcing committed paths to disk, a batch at a time, while the requests go on."""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path as File

from keff.sampling.store._database import DATABASE, clear_errors

BATCH = 64
"""Paths between two forced writes to disk."""


class Disk:
    """Forces the log of a run to disk in a thread of its own, once a batch."""

    def __init__(self, folder: File) -> None:
        self._folder = folder
        self._unsynced = 0
        self._syncer = ThreadPoolExecutor(1, thread_name_prefix="sync")
        self._syncing: Future[None] = Future()
        self._syncing.set_result(None)

    def committed(self, paths: int) -> None:
        """Count paths; after a batch start to force the log to disk, unless that is still under way."""
        self._unsynced += paths
        if self._unsynced < BATCH or not self._syncing.done():
            return
        with clear_errors(self._folder):
            self._syncing.result()
            self._syncing = self._syncer.submit(_force, self._folder / f"{DATABASE}-wal")
        self._unsynced = 0

    def close(self) -> None:
        """Wait for what is under way; safe to call twice."""
        self._syncer.shutdown()


def _force(file: File) -> None:
    handle = os.open(file, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
