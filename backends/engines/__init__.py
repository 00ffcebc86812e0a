"""How a job is saved and brought back: one port, several engines."""
