"""The gateway: a plan behind an OpenAI-compatible endpoint (extra ``serve``), with the drift alarm.

A request is read (``request``), compared with the plan (``terms``), answered by the vote of live paths
(``vote``, over ``upstream``, read by ``reading``) and given back whole or streamed (``reply``, ``stream``).
"""
