"""What happened and what is known: events, current state, measured reclaims, the operations journal."""
