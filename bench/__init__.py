"""Speed as ratios to a peer or a ceiling measured in the same run: `make bench`."""
