"""Other harnesses: what exists only so that their task files, models, flags and results work here.

Nothing in the rest of the package imports from here. Each part is found through an entry of a registry, by name and
when it is needed, and everything of our own works without it.
"""
