"""Settings merged from flag, environment, context and file, with the origin of each value (`resolve.resolve`)."""
