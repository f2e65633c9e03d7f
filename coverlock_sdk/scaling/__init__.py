"""Verifying and marking many pictures at once, on the cores of one machine."""
