"""Seconds of a vote: quantiles of the time to answer, and how paths that run at once slow each other down."""
