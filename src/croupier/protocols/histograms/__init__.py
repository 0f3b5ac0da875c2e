"""Histograms and selections: how many users hold each item, by frequency oracles, whoever is trusted."""
