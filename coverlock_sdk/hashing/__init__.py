"""Image hashes: from a picture to 256 distortion-stable logits."""
