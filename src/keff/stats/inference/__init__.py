"""Intervals, the cluster bootstrap and influence functions that every other statistic uses.

In: sums or values per cluster. Out: ``Interval`` and resampling weights.
Read ``intervals``, then ``resampling``.
"""
