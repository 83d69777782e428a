"""A data set that needs no download: sentences of our own, spoken by espeak-ng."""
