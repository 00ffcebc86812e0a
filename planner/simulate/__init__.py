"""Replay of traces and seeded Monte Carlo."""
