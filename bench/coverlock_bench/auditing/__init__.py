"""The audit: measures how forgeable a watermark is, and reports it in words and pictures."""
