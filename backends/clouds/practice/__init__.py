"""The fake cloud of the practice fleet, reached over its control socket."""
