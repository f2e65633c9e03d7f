"""The lock: keys, codes, messages, and the statistics behind verdicts."""
