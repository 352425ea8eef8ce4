"""The gateway: a plan behind an OpenAI-compatible endpoint (extra ``serve``), with the drift alarm.

A request is read (``http.request``), compared with the plan (``vote.request_policy``) and answered by the
vote of live paths (``vote.vote``), which ``upstream`` draws and ``vote.extraction`` reads; ``http.reply``
gives it back whole or streamed.
"""
