"""Verifying many pictures at once: on the cores of one machine, or on a cluster."""
