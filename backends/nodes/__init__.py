"""Nodes over SSH: transport, fixed verbs, facts, installation."""
