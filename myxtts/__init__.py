"""MyXTTS: train text-to-speech voices on TensorFlow with an accelerator that never waits for data."""

__version__ = "0.1.0"
