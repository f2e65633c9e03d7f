"""Drawn pictures of every kind a watermark may meet besides photos.

A kind is drawn by *designs*. Those of training and of evaluation are different layouts with
different font files, words and photos; some share helpers, such as drawn heads or QR modules. A
design takes a template seed, which fixes its layout, and a content seed; pictures of one template
are the hardest to tell apart.
"""
