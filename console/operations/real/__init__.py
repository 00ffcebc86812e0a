"""The adapters a fleet is opened with outside tests: store, keys, records, links."""
