"""Image hashes: from a picture to numbers that distortions hardly move."""
