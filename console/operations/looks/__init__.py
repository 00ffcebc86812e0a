"""Looks: what screens and listings ask of a fleet beside its snapshot; each answer is one document."""
