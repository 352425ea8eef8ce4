"""Several processes on one port, of which one keeps the counts for all.

Read ``crew``, then ``worker``.
"""
