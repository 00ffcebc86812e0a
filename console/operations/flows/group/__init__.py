"""Jobs of several nodes as one: saved at one agreed point, brought back together."""
