"""Measurements as ratios against peers in one run; nothing here is asserted by tests."""
