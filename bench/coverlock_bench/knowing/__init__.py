"""Attackers who know everything but the key: all networks, this code, and released pictures.

Most attacks work on codes: the attacker computes the public hash of every released picture, reads
its payload with the public decoder, and works out which payload another picture should carry. The
public encoder then puts it there. One attack a file; each says what its attacker has.
"""
