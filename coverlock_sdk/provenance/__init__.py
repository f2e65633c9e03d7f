"""Content credentials (C2PA) that survive stripping, and that no transplanted mark leads to.

A picture is marked with a locked serial, and its manifest says so in two soft bindings: the lock's
and a fingerprint's. Whoever meets the picture without its manifest finds it again by both, or not.
"""
