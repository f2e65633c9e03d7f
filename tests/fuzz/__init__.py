"""Strange inputs for every reader of the SDK, by the million: ``python -m tests.fuzz``."""
