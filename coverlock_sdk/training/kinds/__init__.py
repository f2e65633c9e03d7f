"""Drawn pictures of every kind a watermark may meet besides photos.

A kind is drawn by *designs*. Those of training and of evaluation are different code, written in
different fonts, from different words and different photos, so what is measured on evaluation
pictures was never seen. A design takes a template seed, which fixes its layout, and a content
seed; pictures of one template are the hardest to tell apart.
"""
