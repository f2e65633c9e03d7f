"""What is deployed: the bundle, its signature, and its compiled engines."""
