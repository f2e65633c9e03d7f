"""Image hashes compared: errors, agreement, documents, latency, calibration."""
