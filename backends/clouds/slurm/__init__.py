"""Slurm: a node is one allocation (a Slurm job) with a guard inside; its end is told by Slurm's own commands."""
