"""Weights from elsewhere: fetching, importing and checking them."""
