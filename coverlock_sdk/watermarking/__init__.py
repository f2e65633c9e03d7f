"""Watermarks that are PyTorch networks: their contract, their weights, and one trainer for all."""
