"""Machines that are rented: what is left over, and whether a pool can be launched."""
