"""Readers of the reclaim notices of providers, on the node."""
