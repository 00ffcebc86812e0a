"""Durable steps: save, restore, move, batch, watch."""
