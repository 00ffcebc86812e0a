"""What the guard decides, without touching anything: events and time in, decisions out."""
