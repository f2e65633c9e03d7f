"""How long verification takes, by runtime, precision and stage.

On a shared machine absolute times say little, so that everything is compared with PyTorch in the
same run, and what is compared takes turns.
"""
