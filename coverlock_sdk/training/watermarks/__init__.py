"""Training of watermark networks."""
