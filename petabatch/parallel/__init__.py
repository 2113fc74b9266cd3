"""Distribution of slices over ranks, and reductions between them."""
