"""Reading of runs and logs into Records: find the format, extract answers, score them."""
