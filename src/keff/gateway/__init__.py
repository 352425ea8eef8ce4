"""The gateway: an OpenAI-compatible endpoint that serves a plan (extra ``serve``), with a drift alarm.

In: requests of clients. Out: replies that hold the vote of several paths.
A request is read (``http.request``), compared with the plan (``vote.request_policy``) and answered by the
vote of live paths (``vote.vote``), which ``upstream`` draws and ``vote.extraction`` reads; ``http.reply``
returns it whole or streamed. Read ``service`` first.
"""
