"""Reports as single files that open anywhere."""
