"""The front and the analyzer as real programs: stores, keys, HTTP, and the dashboard."""
