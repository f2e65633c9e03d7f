"""Pictures: every kind and size, reading and writing, resampling, distortions."""
