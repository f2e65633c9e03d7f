"""Everything that learns: hashes, watermarks, and what their runs share."""
