"""Instruments: they observe a source of batches or a run of steps, and own neither."""
