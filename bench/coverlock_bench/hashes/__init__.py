"""Compares image hashes: errors, agreement, similar pictures, cost and calibration."""
