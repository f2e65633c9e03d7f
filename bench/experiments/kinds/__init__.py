"""Drawn pictures that resemble one another more than photos do, to compare hashes on."""
