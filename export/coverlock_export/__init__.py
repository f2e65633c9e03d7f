"""Export of hash and decoders to deployable graphs."""
