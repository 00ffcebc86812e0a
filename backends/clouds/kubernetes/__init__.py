"""Kubernetes: pods as nodes, found by label, and whether one is gone; by kubectl."""
