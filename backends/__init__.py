"""The world: nodes over SSH, the guard on the node, engines, stores, clouds, the ledger."""
