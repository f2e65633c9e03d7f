"""Our own studies, which are in no wheel: ``python -m experiments NAME``.

They make the published figures and render them into the docs.
"""
