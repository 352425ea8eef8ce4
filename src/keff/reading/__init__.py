"""Run or log -> Record: find the format, read answers, score them."""
