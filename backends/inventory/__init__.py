"""Fleet and job records as TOML files: `load.load` reads them strictly, `save` writes one file a record."""
