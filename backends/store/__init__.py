"""Where checkpoints live: object operations, sealing, commit order, lineage, retention."""
