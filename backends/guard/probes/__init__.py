"""Readers of what a machine says of itself; each returns None for what is missing, odd or absurd."""
