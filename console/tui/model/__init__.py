"""What the screens show, worked out without a terminal: pure functions of a snapshot and a time."""
