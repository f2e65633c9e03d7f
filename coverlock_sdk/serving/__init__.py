"""Verification over HTTP: a small service around one ``Verifier``."""
