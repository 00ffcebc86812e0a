"""Numbers: pure functions on floats (and numpy arrays where a sweep needs them); no I/O, no clock."""
