"""How a feature store is built: what to compute, by whom, and how it is laid out, published and continued."""
