"""Task x engine x policy -> run folder: draw paths, keep them, resume."""
