"""Attackers who know CoverLock."""
