"""Reports: the self-contained HTML page, figures and tables.

In: an ``Analysis`` and its record. Out: a page of HTML without network, and figures as SVG.
Read ``write``, then ``page``, then ``figures``.
"""
