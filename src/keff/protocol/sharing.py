"""How many paths one request may ask for, as a server teaches it."""

from __future__ import annotations

# Answers in a row with too few paths, or with one twice, after which a server is taken to share no requests:
# one may be a passing fault, and the paths that it lacks are asked for again either way.
ODD = 3


class Sharing:
    """The most paths per request.

    Lowered when the server refuses ``n``, or ignores it several times in a row.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._odd_in_row = 0

    def refused(self, n: int) -> None:
        """Note that the server refused n paths and gave one to the same request."""
        self.most = min(self.most, (n + 1) // 2 if n > 2 else 1)

    def came(self, n: int, paths: int) -> None:
        """Note that so many of n paths came; a path that came twice counts as none."""
        if n == 1:
            return
        self._odd_in_row = self._odd_in_row + 1 if paths < n else 0
        if self._odd_in_row >= ODD:
            self.most = 1
