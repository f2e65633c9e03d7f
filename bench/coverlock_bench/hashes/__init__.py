"""Image hashes compared: errors, agreement, pictures that are alike, cost, calibration."""
