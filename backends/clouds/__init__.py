"""Providers: identity, figures, replacement capacity, proof of death."""
