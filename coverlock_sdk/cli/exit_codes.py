"""What the exit codes of ``coverlock`` mean."""

from __future__ import annotations

ACCEPTED = 0
REJECTED = 1
ERROR = 2
INTERRUPTED = 130
BROKEN_PIPE = 141

HELP = (
    "Exit codes: 0 everything was accepted, or the command did its work; 1 some picture was "
    "rejected, or a condition of 'audit --fail-if' holds; 2 something could not be processed, or "
    "the command was used wrongly; 130 you pressed Ctrl-C; 141 whoever read the output went away."
)
