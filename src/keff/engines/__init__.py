"""Where paths are drawn: one engine per file."""
