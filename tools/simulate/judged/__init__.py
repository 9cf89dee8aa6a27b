"""What a run's records meant, by the shipped reducer: to claims, and to the ranges on them."""
