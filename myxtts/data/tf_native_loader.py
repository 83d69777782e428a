"""Loading in graph, with no Python function: batches from a store or from audio files, and single files."""

from __future__ import annotations

import os
from collections.abc import Mapping

import tensorflow as tf

from myxtts.audio.mel import MelSettings
from myxtts.audio.mel_tf import LogMel
from myxtts.audio.reading import PCM16_SCALE
from myxtts.data.batches.audio_loader import AudioLoader
from myxtts.data.batches.clip_files import read_clip
from myxtts.data.batches.clip_table import ClipTable
from myxtts.data.batches.runtime_clips import RuntimeClips
from myxtts.data.batches.share import WHOLE, Share
from myxtts.data.batches.store_loader import StoreLoader
from myxtts.data.store import FeatureStore


class TFNativeDataLoader:
    """Turns requests for batches into batches, and audio files into mels, as graph operations.

    Args:
        settings: what a mel is; by default HiFi-GAN's convention.
        clips: a feature store, or the clips of runtime mode; none: only single files can be loaded.
        table: the clips' table; none only where `clips` is.
        mel_dtype: type of the mels in runtime mode; a store gives its own.
        on_device: in runtime mode, leave the mels to the compiled step (see `AudioLoader`).
        reference_frames: frames of `reference_mel`; 0 for none.
        share: which places of a batch are loaded.

    Example:
        ```python
        loader = TFNativeDataLoader()
        audio, mel = loader.load_and_process_audio("wavs/LJ001-0001.wav")
        ```
    """

    def __init__(
        self,
        settings: MelSettings | None = None,
        clips: FeatureStore | RuntimeClips | None = None,
        table: ClipTable | None = None,
        *,
        mel_dtype: str = "float16",
        on_device: bool = False,
        reference_frames: int = 0,
        share: Share = WHOLE,
    ) -> None:
        self.settings = settings or MelSettings()
        self._log_mel = LogMel(self.settings)
        self._loader: StoreLoader | AudioLoader | None = None
        with tf.device("/CPU:0"):  # where batches are loaded, whatever other devices there are
            if isinstance(clips, FeatureStore) and table is not None:
                self._loader = StoreLoader(clips, table, reference_frames, share)
            elif isinstance(clips, RuntimeClips) and table is not None:
                self._loader = AudioLoader(clips, table, self.settings, mel_dtype, on_device, reference_frames, share)

    def load_batch(self, request: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The batch that a request of `order_in_graph.batch_requests` asks for."""
        if self._loader is None:
            raise ValueError("this loader was made without clips; it loads single files only")
        return self._loader.load_batch(request)

    def load_and_process_audio(
        self, path: str | os.PathLike[str] | tf.Tensor, max_length: int | tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """One 16-bit PCM WAV file at the settings' sample rate, with its mel.

        Args:
            path: of the file, a string tensor in a graph.
            max_length: samples after which the rest is cut off; none: all of them.

        Returns:
            audio: float32 [n], full scale ±1, trimmed if the settings say so.
            mel: float32 [F, n_mels].

        Raises:
            tf.errors.InvalidArgumentError: the file is of another kind or rate.
            tf.errors.NotFoundError: there is no such file.
        """
        path = path if tf.is_tensor(path) else tf.constant(os.fspath(path))
        return self._load_and_process(path, tf.constant(-1) if max_length is None else tf.cast(max_length, tf.int32))

    @tf.function(input_signature=[tf.TensorSpec([], tf.string), tf.TensorSpec([], tf.int32)])
    def _load_and_process(self, path: tf.Tensor, max_length: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        refusal = f"not a 16-bit PCM WAV file at {self.settings.sample_rate} Hz:"
        pcm = read_clip(path, self.settings, refusal)
        pcm = pcm[: tf.where(max_length < 0, tf.size(pcm), max_length)]
        return tf.cast(pcm, tf.float32) / PCM16_SCALE, self._log_mel(pcm)
