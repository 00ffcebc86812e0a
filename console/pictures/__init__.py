"""Pictures in text, for the command line and the terminal app: each is one block of lines."""
