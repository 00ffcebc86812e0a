"""What the guard keeps on disk: layout, small durable files, event spool, freeze ledger, requests."""
