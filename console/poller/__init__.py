"""The poller: a process that looks at the fleet and tells the console what changed."""
