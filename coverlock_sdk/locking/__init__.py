"""The lock: keys, codes, messages, and the statistics that make verdicts of them."""
