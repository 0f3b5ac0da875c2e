"""Private sums: numbers and vectors, each protocol a row, planned for a batch and sent through a carrier."""
