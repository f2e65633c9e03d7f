"""Watermarks trained for a comparison: interventions, training choices, filters."""
