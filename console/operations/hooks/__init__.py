"""What the controller tells the world outside: news by webhook and command, metrics, its own installation."""
