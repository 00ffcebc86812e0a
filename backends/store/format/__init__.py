"""Format 1: manifests, sealed frames in packs, the extent index, CRIU's pagemaps. Byte for byte in docs/formats.md."""
