"""Which clips make which batch, and how a batch is loaded and moved to the step."""
