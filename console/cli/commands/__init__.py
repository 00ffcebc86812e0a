"""One module a noun: the handlers behind the registry."""
