"""What the analyses return: one module of frozen dataclasses for each."""
