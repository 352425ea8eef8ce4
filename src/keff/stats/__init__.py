"""Statistics of correlated votes: pure functions on Votes; numpy and scipy.special only."""
