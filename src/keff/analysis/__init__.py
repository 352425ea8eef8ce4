"""Record -> estimates and the recommendation."""
