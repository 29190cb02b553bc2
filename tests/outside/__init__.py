"""A package that is not ours: twelve changes to Assay, one small file each, found by their entry points."""
