"""Data only: the records that nodes, stores and consoles exchange, with strict readers."""
