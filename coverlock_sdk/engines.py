"""Compiled engines of a bundle: what each was built for, and whether this machine may run it.

A TensorRT engine is executable code for one kind of GPU and one version of TensorRT. It is
loaded only from a verified bundle, and only where it belongs.
"""

from __future__ import annotations

PORTABLE = "ampere+"
"""Architecture of an engine that runs on every GPU from Ampere (compute capability 8.0) on."""
