"""The production verifier: bundles, runtimes, batching, the audit log."""
