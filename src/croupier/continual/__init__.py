"""The concurrent shuffle model and counters under continual observation (002)."""
