"""Histograms and selections: how many users hold each item, by frequency oracles in three trust models."""
