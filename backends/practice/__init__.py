"""The practice fleet: real hosts on this machine to lose without losing anything."""
