"""The service on a node that keeps saving with or without a console."""
