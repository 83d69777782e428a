"""MyXTTS: train text-to-speech voices on TensorFlow with an accelerator that never waits for data.

>>> from myxtts import LJSpeechDataset, XTTSConfig, XTTSInference, XTTSTrainer, diagnose

A name is imported when it is first used: `import myxtts` alone does not load TensorFlow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"

__all__ = ["LJSpeechDataset", "XTTSConfig", "XTTSInference", "XTTSTrainer", "__version__", "diagnose"]

if TYPE_CHECKING:
    from myxtts.config.config import XTTSConfig
    from myxtts.data.ljspeech import LJSpeechDataset
    from myxtts.inference.xtts_inference import XTTSInference
    from myxtts.performance.diagnose_pipeline import diagnose
    from myxtts.training.trainer import XTTSTrainer
else:
    _MODULES = {
        "LJSpeechDataset": "myxtts.data.ljspeech",
        "XTTSConfig": "myxtts.config.config",
        "XTTSInference": "myxtts.inference",
        "XTTSTrainer": "myxtts.training.trainer",
        "diagnose": "myxtts.performance",
    }

    def __getattr__(name):
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(_MODULES[name]), name)

    def __dir__():
        return sorted({*globals(), *_MODULES})
