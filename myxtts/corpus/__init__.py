"""Generates a data set that needs no download: our own sentences, spoken by espeak-ng."""
