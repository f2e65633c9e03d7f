"""Forgery attacks, one file each, named after the paper's name for it."""
