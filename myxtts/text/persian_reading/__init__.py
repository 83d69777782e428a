"""Persian as Persians read it: the ezafe, readings by context, the sounds of words.

`reader.py` has the whole; `tagger.npz`, `ezafe.tsv`, `words.tsv` and `readings.tsv` are its data, NOTICE.md their
sources and licences.
"""

# Part of every fingerprint of phonemes: raise it when a Persian text would come out differently.
PERSIAN_READING_VERSION = 1

__all__ = ["PERSIAN_READING_VERSION"]
