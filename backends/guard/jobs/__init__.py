"""Jobs on a node: their records, and the work of saving, starting, restoring and ending them."""
