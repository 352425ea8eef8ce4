"""When to stop drawing paths: one policy a file."""
