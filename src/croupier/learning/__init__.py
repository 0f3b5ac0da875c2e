"""User-level private learning: users vote with a shared seed, selection decides (004)."""
