"""Statistics of correlated votes: pure functions on Votes; numpy and scipy.special only.

In: ``Votes`` or plain arrays; random generators are passed in. Out: estimates, intervals, curves.
Read ``votes`` (the input of all), then ``voting`` (one branch as recorded), ``models`` (beyond what was
recorded) and ``branches`` (several models or prompts).
"""
