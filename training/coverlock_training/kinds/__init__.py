"""Drawn pictures that resemble one another more than photos do.

A kind is drawn by *designs*. Those of training and of evaluation are different layouts with
different font files, words and photos. A design takes a template seed, which fixes its layout, and
a content seed; pictures of one template are the hardest to tell apart.
"""
