"""The usable clips of a data set whose mels are computed while training: runtime mode's stand-in for a store.

Tokens are small and slow to make, so they are made once, here, and kept in memory. Of the audio only the headers are
read, which is enough to know how long every clip's mel will be. Nothing is written to disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from myxtts.audio.mel import MelSettings, trim
from myxtts.audio.reading import read_audio, read_pcm16
from myxtts.data.clips import number_names
from myxtts.data.clips.audio_headers import probe_audio
from myxtts.data.clips.metadata import Metadata
from myxtts.data.store.columns import ClipRows, TokenComputer, token_settings
from myxtts.text import TextSettings

DATA_OFFSET, SAMPLES, CHANNELS = range(3)


@dataclass(frozen=True, eq=False)
class RuntimeClips:
    """Columns of the usable clips; entry i everywhere is the same clip.

    Attributes:
        ids: the clips' ids.
        audio_paths: their files.
        parts: of each file, where the clip starts and how long it is, in seconds.
        pcm: int64 [N, 3], for a file that the graph can decode: where its samples begin, their number, and the
            channels; zeros for the others, which are read through Python.
        mel_lengths: int32 [N], frames; with silence trimming the most there can be.
        token_data: int32, all tokens one after another and the padding id last.
        token_offsets, token_lengths: int64 and int32 [N], where each clip's tokens lie.
        speaker_ids, language_ids: int32 [N], positions in `speakers` and `languages`.
    """

    ids: Sequence[str]
    audio_paths: Sequence[str]
    parts: Sequence[tuple[float, float | None]]
    pcm: np.ndarray
    mel_lengths: np.ndarray
    token_data: np.ndarray
    token_offsets: np.ndarray
    token_lengths: np.ndarray
    speaker_ids: np.ndarray
    language_ids: np.ndarray
    speakers: Sequence[str]
    languages: Sequence[str]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def graph_readable(self) -> np.ndarray:
        """bool [N], whether the graph can decode the file."""
        return self.pcm[:, CHANNELS] > 0

    def read_samples(self, row: int, settings: MelSettings, dtype: type[np.float32] | type[np.int16]) -> np.ndarray:
        """A clip's samples; as the function of this name."""
        return read_samples(self.audio_paths[row], settings, dtype, *self.parts[row])

    @classmethod
    def build(
        cls, metadata: Metadata, mel: MelSettings, text: TextSettings, workers: int
    ) -> tuple[RuntimeClips, Metadata]:
        """Reads the headers and makes the tokens of a data set.

        Returns:
            The usable clips, and the metadata without the others, each of them with its reason among the problems.
        """
        headers = probe_audio(metadata.clips, workers)
        samples = headers.samples_at(mel.sample_rate)
        frames = mel.frames(samples)
        texts = [(clip.text, clip.language, clip.ipa) for clip in metadata.clips]
        tokens = list(TokenComputer(**token_settings(text)).compute(texts))
        problems = list(headers.problems)
        unreadable = {problem.clip_id for problem in problems}
        for clip, count, made in zip(metadata.clips, frames, tokens, strict=True):
            if clip.id in unreadable:
                continue
            if count == 0:
                message = f"{clip.audio_path}: the audio is too short for a single frame"
                problems.append(clip.problem("empty-audio", message))
            elif isinstance(made, str):
                problems.append(clip.problem("unusable-text", made))
        usable = metadata.leave_out(problems)
        left_out = {problem.clip_id for problem in problems}
        kept = [row for row, clip in enumerate(metadata.clips) if clip.id not in left_out]
        ids = [made.rows for made in (tokens[row] for row in kept) if isinstance(made, ClipRows)]
        pcm = np.stack([headers.data_offset, headers.frames, headers.channels], axis=1)
        pcm[~headers.graph_readable(mel.sample_rate)] = 0
        token_lengths = np.array([len(one) for one in ids], np.int32)
        speakers, speaker_ids = number_names(clip.speaker for clip in usable.clips)
        languages, language_ids = number_names(clip.language for clip in usable.clips)
        runtime = cls(
            ids=[clip.id for clip in usable.clips],
            audio_paths=[clip.audio_path for clip in usable.clips],
            parts=[(clip.start, clip.duration) for clip in usable.clips],
            pcm=pcm[kept],
            mel_lengths=frames[kept].astype(np.int32),
            token_data=np.concatenate([*ids, np.zeros(1, np.int32)]),
            token_offsets=np.cumsum(token_lengths, dtype=np.int64) - token_lengths,
            token_lengths=token_lengths,
            speaker_ids=speaker_ids,
            language_ids=language_ids,
            speakers=speakers,
            languages=languages,
        )
        return runtime, usable


def read_samples(
    path: str,
    settings: MelSettings,
    dtype: type[np.float32] | type[np.int16],
    start: float = 0.0,
    duration: float | None = None,
) -> np.ndarray:
    """Samples of a file, or of a part of it, at the settings' rate, trimmed if they say so.

    Raises:
        AudioError: the file cannot be read.
    """
    read = read_pcm16 if dtype is np.int16 else read_audio
    return trim(read(path, settings.sample_rate, start, duration), settings)


def crop_samples(audio: np.ndarray, first_frame: int, frames: int, settings: MelSettings) -> np.ndarray:
    """The samples under `frames` frames from `first_frame` on; a clip that ends before begins again."""
    whole = max(settings.frames(len(audio)), 1) * settings.hop_length
    position = (first_frame * settings.hop_length + np.arange(frames * settings.hop_length)) % whole
    return np.take(audio, position, mode="clip")
