"""The scale on which the model sees mels. Needs no TensorFlow."""

from __future__ import annotations

# Natural-log mels of speech in HiFi-GAN's convention have about this mean and deviation over all bands and voices.
# Constants and not statistics of the data: a checkpoint then continues on other data, and a mel means the same.
MEL_MEAN = -5.5
MEL_DEVIATION = 2.2

# Deviation of the noise around the mean mel that the flow decoder starts from: about as much as it has to add.
NOISE = 0.5
# Scale of that noise when speaking; less is calmer.
TEMPERATURE = 0.667
