"""Whether the texts of clips are what is said in them, by how well the model explains the recordings with them.

A wrong text cannot be told by its error alone: some recordings are harder than others. So every recording is also
aligned with texts of other clips. The text that is said explains it far better than those do; a wrong one does not.
"""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from myxtts.models.masking import dims
from myxtts.models.xtts import XTTS

OTHER_TEXTS = 4
# From here on a text does not fit. Of 1,142 clips with 20 swapped texts and a model after 300 steps, the swapped ones
# had 0.84 to 1.16, the others 0.31 to 0.68.
WRONG = 0.8
# While the median of a data set is above this, the model cannot tell.
LEARNT = 0.65

_TEXT = ("tokens", "token_lengths", "language")
_USED = (*_TEXT, "mel", "mel_lengths", "reference_mel")


def text_misfit(model: XTTS, batch: Mapping[str, tf.Tensor], others: int = OTHER_TEXTS) -> tf.Tensor:
    """The error of each clip's text over the mean error of the texts of `others` other clips of the batch, best of
    about the same length: float32 [B], small where the text fits, about 1 where it does not; 0 where the batch has no
    other text.

    Args:
        model: with the weights of a voice that speaks.
        batch: as for `XTTS.call`.
        others: how many texts to compare with.
    """
    clips = dims(batch["tokens"])[0]
    # All texts in one batch, since aligning is a loop over frames: a row for each shift of the texts.
    several = {
        name: tf.tile(value, [others + 1] + [1] * (value.shape.rank - 1))
        for name, value in batch.items()
        if name in _USED
    }
    for name in _TEXT:
        several[name] = tf.concat([tf.roll(batch[name], shift, axis=0) for shift in range(others + 1)], axis=0)
    differs = tf.reduce_any(several["tokens"] != tf.tile(batch["tokens"], [others + 1, 1]), axis=1)
    usable = tf.cast(differs & (several["token_lengths"] > 0), tf.float32)
    errors = model.text_error(several)
    own, count = errors[:clips], tf.reduce_sum(tf.reshape(usable, [others + 1, clips]), axis=0)
    total = tf.reduce_sum(tf.reshape(usable * errors, [others + 1, clips]), axis=0)
    return tf.math.divide_no_nan(own * count, total)
