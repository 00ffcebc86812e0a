"""`reprieve watch`, and the service that it can be."""
