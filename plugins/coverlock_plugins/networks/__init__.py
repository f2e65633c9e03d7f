"""What watermarks that are PyTorch networks share: building blocks, weight files, the plugin."""
