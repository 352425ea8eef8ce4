"""Label-free drift scores of a request: agreement among its paths, and the stopping time of its rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence


def agreeing_pairs(votes: Iterable[int]) -> int:
    """Return the number of agreeing pairs of paths, from the votes of each answer, without abstentions."""
    return sum(count * (count - 1) // 2 for count in votes)


def stop_score(keys: Sequence[Hashable | None], stop: int | None, most: int) -> float:
    """Return a request's drift score from its stopping time, higher where earlier stops mean more agreement.

    ``keys`` are the answer keys in launch order (None abstains), ``stop`` the paths at which the rule
    stops, None for not within ``most``, the paths that the pilot has of each question. The score is minus
    the stop, later than all of them for None, with the leader's share of those paths between 0 and 0.9 to
    tell equal stops apart. Exchangeable where requests are: the rule sees nothing but the votes.
    """
    n = most if stop is None else stop
    votes = Counter(key for key in keys[:n] if key is not None)
    share = max(votes.values(), default=0) / max(n, 1)
    # Below 1, so that no share makes up for a path.
    return 0.9 * share - (most + 1 if stop is None else stop)
