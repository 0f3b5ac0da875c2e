"""A service to try: its servers, their people, their stores, and those who mean them harm."""
