"""Reports: the self-contained HTML page, figures and tables."""
