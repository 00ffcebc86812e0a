"""Every command as data: name, arguments, tier, help, examples, handler."""
