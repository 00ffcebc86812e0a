"""What `plan`, `plan sweep` and `pools` share: inputs, job records, feeds, ranks, text."""
