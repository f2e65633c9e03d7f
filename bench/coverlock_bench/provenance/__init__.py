"""What content credentials gain from the lock: round trips, transplants, look-ups, tamper hints."""
