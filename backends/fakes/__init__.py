"""In-memory adapters that pass the same contract suites as the real ones."""
