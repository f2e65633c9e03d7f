"""The production embedder: a bundle that marks pictures, without PyTorch."""
