"""Speaking without TensorFlow: graphs that were exported, what lies between them in NumPy, and bundles of both."""
