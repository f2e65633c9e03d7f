"""Attackers who know CoverLock, and what would raise the bar for them."""
