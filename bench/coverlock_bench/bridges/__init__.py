"""Our watermarks in other people's benchmarks, and theirs in our audit."""
