"""Reports: the self-contained HTML page, figures and tables.

In: records and their analyses. Out: one HTML file, SVG and PDF figures, LaTeX and Markdown tables.
Read ``page``, then ``headline`` (its words) and ``series`` (the data of its charts).
"""
