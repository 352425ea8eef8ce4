"""Statistics of correlated votes: pure functions on Votes; numpy and scipy.special only.

In: ``Votes``, or plain arrays. Out: estimates with intervals.
Read ``votes``, then ``voting.plurality`` (exact averages over subsets of paths), then ``intervals``.
"""
