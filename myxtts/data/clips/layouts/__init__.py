"""How data sets are laid out: a module for each kind of layout, `recognition` to tell them apart."""
