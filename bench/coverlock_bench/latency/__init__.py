"""How long verification takes: a pytest-benchmark suite over runtimes, precisions and stages.

On a shared machine, absolute times say little, so everything is compared with PyTorch in the same
run, in alternating turns.
"""
