"""Text: normalising it, its symbols, and the numbers a model reads."""

from myxtts.text.languages import LANGUAGES, language_id
from myxtts.text.normalization import normalize
from myxtts.text.tokenizer import TextSettings, Tokenizer

__all__ = ["LANGUAGES", "TextSettings", "Tokenizer", "language_id", "normalize"]
