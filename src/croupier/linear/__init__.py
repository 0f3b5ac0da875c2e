"""Private linear contextual bandits over continual sums (002 Alg. 4)."""
