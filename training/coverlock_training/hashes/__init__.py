"""Training of image hashes."""
