"""Named operations as the command line and the terminal app call them: the same functions for both."""
