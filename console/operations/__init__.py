"""Operations on a fleet: pure decisions and durable flows."""
