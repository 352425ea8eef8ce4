"""The gateway: an OpenAI-compatible endpoint that serves a plan (extra ``serve``), with a drift alarm.

A request is read (``http.request``), compared with the plan (``vote.request_policy``) and answered by the
vote of live paths (``vote.vote``), which ``upstream`` draws and ``vote.extraction`` reads; ``http.reply``
gives it back whole or streamed.
"""
