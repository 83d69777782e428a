"""Creates the model that a configuration describes."""

from __future__ import annotations

from myxtts.config.config import XTTSConfig
from myxtts.models.sizes import SIZES, resolve_decoder
from myxtts.models.xtts import XTTS
from myxtts.text.languages import LANGUAGES
from myxtts.text.symbols import SYMBOLS


def create_model(config: XTTSConfig, policy: str = "float32") -> XTTS:
    """A model with new weights.

    Args:
        config: the `model` section, and of `data` the mel bands, the log floor and the extra languages.
        policy: Keras dtype policy: `float32`, `mixed_float16` or `mixed_bfloat16`.
    """
    return XTTS(
        SIZES[config.model.size],
        vocab_size=len(SYMBOLS),
        languages=len(LANGUAGES) + len(config.data.extra_languages),
        n_mels=config.data.n_mels,
        log_floor=config.data.log_floor,
        decoder=resolve_decoder(config.model),
        dtype=policy,
    )
