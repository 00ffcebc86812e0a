"""Lifetimes that are not memoryless, and the schedule of saves that fits them."""
