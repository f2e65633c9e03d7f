"""The audit: what a watermark's forgeability is, measured, told and drawn."""
