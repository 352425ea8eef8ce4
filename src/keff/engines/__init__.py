"""Where paths are drawn: one engine a file."""
