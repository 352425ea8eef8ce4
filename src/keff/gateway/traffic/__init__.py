"""Traffic of a gateway: counts, drift, savings, traces, and the operator's pages.

In: votes as they end. Out: ``/metrics``, ``/keff``, alarms. Read ``ledger``, then ``pages``.
"""
