"""The four sections of a configuration. Every key has a description, and code that reads it.

A key name is in one section only, so a value can be given flat, without its section: `XTTSConfig(batch_size=48)`,
`--batch-size 48`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from myxtts.hardware import usable_cpus

logger = logging.getLogger(__name__)

Auto = Literal["auto"]


def _not_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("should be a number")
    return value


def _folders(value: Any) -> Any:
    """One folder as a string; several as a list."""
    given = list(value) if isinstance(value, (list, tuple)) else [value]
    if not given or not all(isinstance(one, str) and one for one in given):
        raise ValueError("should be a folder, or a list of folders")
    places = [os.path.normpath(one) for one in given]
    repeated = [one for one, place in zip(given, places, strict=True) if places.count(place) > 1]
    if repeated:
        raise ValueError(f"'{repeated[0]}' is given twice; data_weights lets its clips come more often")
    return given if len(given) > 1 else given[0]


Int = Annotated[int, BeforeValidator(_not_bool)]
Float = Annotated[float, BeforeValidator(_not_bool)]
Name = Annotated[str, Field(min_length=1)]
Folders = Annotated[str | list[str], BeforeValidator(_folders)]
DataLayout = Literal[
    "auto", "ljspeech", "piper", "festvox", "vctk", "libritts", "common-voice", "m-ailabs", "nemo", "lhotse",
    "text-files",
]  # fmt: skip
LanguageCode = Annotated[str, Field(pattern=r"^[a-z]{2,3}(-[A-Za-z0-9-]+)?$")]


class Section(BaseModel):
    """A group of keys. Unknown keys are refused; obsolete keys of old files are dropped with a warning."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True, allow_inf_nan=False, protected_namespaces=())

    title: ClassVar[str]
    aliases: ClassVar[dict[str, str]] = {}  # other names of keys
    obsolete: ClassVar[dict[str, str]] = {}  # keys that no longer have an effect, and why
    before: ClassVar[dict[str, Any]] = {}  # keys that came later, and the value that changes nothing

    @model_validator(mode="before")
    @classmethod
    def _translate_old_names(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        for key in sorted(values.keys() & cls.obsolete.keys()):
            logger.warning("%s.%s has no effect: %s", cls.title, key, cls.obsolete[key])
        translated: dict[str, Any] = {}
        for key, value in values.items():
            name = cls.aliases.get(key, key)
            if name in translated and translated[name] != value:
                raise ValueError(f"{key} is given twice, also as {name}")
            if name not in cls.obsolete:
                translated[name] = value
        return translated


class ModelConfig(Section):
    """The model."""

    title: ClassVar[str] = "model"

    size: Literal["tiny", "base"] = Field(
        "tiny", description="Model size: tiny (1 to 2 M parameters, trains on a CPU) or base (20 to 30 M)"
    )
    decoder: Literal["auto", "regression", "flow"] = Field(
        "auto",
        description=(
            "Mel decoder: regression (quick to train), flow (flow matching), or auto: regression for tiny, "
            "flow for base"
        ),
    )
    flow_steps: Int = Field(10, ge=1, le=1000, description="Euler steps of the flow decoder in synthesis")


class DataConfig(Section):
    """The data set, the features computed from it, and how batches are loaded."""

    title: ClassVar[str] = "data"
    aliases: ClassVar[dict[str, str]] = {"data_path": "dataset_path"}
    obsolete: ClassVar[dict[str, str]] = {
        "shuffle_buffer_multiplier": "every epoch shuffles all clips, without a buffer",
        "memory_cache": "the store is memory-mapped; the page cache is the only cache",
    }

    dataset_path: Folders = Field(
        "./data/ljspeech",
        description=(
            "Folder of the data set (metadata and audio), or a list of several folders, which are used as one data "
            "set (docs/scaling.md); data_path is the same"
        ),
    )
    data_weights: list[Annotated[Int, Field(ge=1)]] = Field(
        default_factory=list,
        description=(
            "Of several data sets, how often the training clips of each come in an epoch, e.g. [1, 3]; empty: once"
        ),
    )
    data_languages: list[LanguageCode] = Field(
        default_factory=list,
        description="Of several data sets, the language of the clips of each that do not name one; empty: language",
    )
    data_layout: DataLayout = Field(
        "auto", description="How the folder is laid out (docs/data-sets.md); auto: recognised by looking"
    )
    metadata_file: Name | None = Field(
        None, description="Metadata file, relative to dataset_path; none: metadata.csv, or what the layout has"
    )
    wavs_dir: Name = Field(
        "wavs", description="Folder of the audio files, relative to dataset_path; if missing, others are searched"
    )
    metadata_train_file: Name | None = Field(
        None, description="Metadata of a separate training set; needs metadata_eval_file, and replaces the splits"
    )
    wavs_train_dir: Name | None = Field(None, description="Audio folder of the separate training set; none: wavs_dir")
    metadata_eval_file: Name | None = Field(None, description="Metadata of a separate validation set")
    wavs_eval_dir: Name | None = Field(
        None, description="Audio folder of the separate validation set; none: wavs_dir"
    )
    train_split: Float = Field(0.95, gt=0, le=1, description="Share of clips for training")
    val_split: Float = Field(
        0.05, ge=0, lt=1, description="Share of clips for validation; the rest is the test split"
    )
    split_seed: Int = Field(
        0, ge=0, description="Seed of the split; the split of a clip depends only on this and on its id"
    )
    speaker_pattern: Name | None = Field(
        None,
        description=(
            "Regular expression for the clip's id; its first group is the speaker, e.g. '^(p[0-9]+)_'; "
            "none: the speaker column of the metadata, or one speaker"
        ),
    )
    language: LanguageCode = Field("en", description="Language of clips that do not name one")
    extra_languages: list[LanguageCode] = Field(
        default_factory=list,
        description=(
            "espeak-ng codes of languages besides the built-in 17; only append, since the position is the id"
        ),
    )

    text_symbols: Literal["auto", "graphemes", "phonemes"] = Field(
        "auto",
        description=(
            "What the model reads: graphemes, phonemes (needs the speech extra), or auto: phonemes if it is installed"
        ),
    )
    add_blank: bool = Field(True, description="Put a blank between symbols, which makes alignment easier")
    lexicons: dict[LanguageCode, Name] = Field(
        default_factory=dict,
        description="Pronunciation lexicon for each language: a file of word<TAB>ipa lines, used before espeak-ng",
    )

    sample_rate: Int = Field(
        22050, ge=4000, le=192000, description="Samples per second; audio with another rate is resampled"
    )
    n_fft: Int = Field(1024, ge=16, le=16384, description="FFT size of the mel spectrogram, in samples")
    win_length: Int = Field(1024, ge=16, le=16384, description="Window length, in samples (at most n_fft)")
    hop_length: Int = Field(256, ge=1, le=16384, description="Samples between frames (at most n_fft)")
    n_mels: Int = Field(80, ge=1, le=512, description="Number of mel bands")
    mel_fmin: Float = Field(0.0, ge=0, description="Lowest frequency of the mel bands, in Hz")
    mel_fmax: Float = Field(
        8000.0, gt=0, description="Highest frequency of the mel bands, in Hz (at most half the sample rate)"
    )
    log_floor: Float = Field(1e-5, gt=0, description="Smaller magnitudes are raised to this before the logarithm")
    trim_silence: bool = Field(False, description="Cut silence at both ends of each clip")
    trim_db: Float = Field(40.0, gt=0, description="Silence is at least this many dB below the clip's loudest frame")

    preprocessing_mode: Literal["auto", "precompute", "runtime"] = Field(
        "auto",
        description=(
            "auto: build a store if the disk has room; precompute: train only from a complete store; runtime: "
            "compute features while training, without a store"
        ),
    )
    build_beside_minutes: Float = Field(
        10.0,
        ge=0,
        description=(
            "auto: training does not wait for a store that would take longer than this to build; it begins with "
            "features computed for each batch, and the store takes over between two epochs"
        ),
    )
    cache_dir: Name | None = Field(
        None,
        description=(
            "Folder of the feature stores; none: cached_features in the data set's folder, or the user's "
            "cache folder if the data set is read-only"
        ),
    )
    max_clips_per_part: Int | None = Field(
        None,
        ge=1,
        description=(
            "Keep the features in parts of at most so many clips, each a store of its own, for millions of clips "
            "(docs/scaling.md); none: one store for each data set"
        ),
    )
    trust_store: bool = Field(
        False,
        description=(
            "Use the store in parts as `myxtts precompute` has left it, and look neither at metadata nor at audio "
            "files; for millions of clips, or where only the store is"
        ),
    )
    cache_verification: bool = Field(True, description="Check sizes, index and manifest whenever a store is opened")
    auto_rebuild_mel_cache: bool = Field(
        True,
        description="Compute stored mels again when audio settings have changed; false: stop, and list the changes",
    )
    auto_rebuild_token_cache: bool = Field(
        True,
        description="Compute stored tokens again when text settings have changed; false: stop, and list the changes",
    )
    mel_dtype: Literal["float16", "float32"] = Field(
        "float16", description="Precision of stored mels; float16 needs half the disk space and loads faster"
    )
    store_audio: bool = Field(
        False,
        description=(
            "Also store the audio, as 16-bit samples, for training a vocoder on random segments of it (44 kB per "
            "second at 22,050 Hz)"
        ),
    )
    enable_memory_mapping: bool = Field(
        True,
        description=(
            "Memory-map the store; false: read all of it into memory at the start (small data sets, network disks)"
        ),
    )

    batch_size: Int = Field(32, ge=1, le=65536, description="Clips per batch")
    max_frames_per_batch: Int | None = Field(
        None,
        ge=1,
        description=(
            "Mel frames per batch, instead of batch_size: more clips in a batch if they are short; constant memory"
        ),
    )
    max_mel_frames: Int = Field(1024, ge=1, description="Longest clip, in mel frames (1024 frames are 11.9 s)")
    max_tokens: Int = Field(512, ge=1, description="Longest text, in tokens, with blanks")
    long_clips: Literal["skip", "crop"] = Field(
        "skip", description="Leave out clips over max_mel_frames or max_tokens (and report how many), or crop them"
    )
    num_buckets: Int = Field(
        6, ge=1, le=64, description="Number of batch shapes; each is compiled once, and more shapes mean less padding"
    )
    reference_seconds: Float = Field(
        3.0,
        ge=0,
        le=60,
        description=(
            "Seconds of speech of the same speaker that come with each clip, to learn voice cloning; 0: none"
        ),
    )
    num_workers: Annotated[Int, Field(ge=1, le=1024)] | Auto = Field(
        "auto",
        description="Parallel workers that compute features and load batches; auto: the CPUs this process may use",
    )
    prefetch_buffer_size: Annotated[Int, Field(ge=1, le=1024)] | Auto = Field(
        "auto", description="Batches to prepare ahead in host memory; auto: two per worker, 4 to 16"
    )
    use_tf_native_loading: bool = Field(
        True, description="Load in graph; false: through Python, one batch at a time (--disable-tf-native-loading)"
    )
    prefetch_to_gpu: bool = Field(
        True, description="Copy batches to the GPU ahead of the step (--disable-gpu-prefetch)"
    )
    enhanced_gpu_prefetch: bool = Field(
        True, description="Keep more than one batch on the GPU (--disable-gpu-prefetch)"
    )
    optimize_cpu_gpu_overlap: bool = Field(
        True,
        description=(
            "Prepare batches while the device works; false: load each batch only when the step needs it "
            "(--disable-cpu-gpu-overlap)"
        ),
    )
    feature_device: Literal["host", "accelerator"] = Field(
        "host",
        description=("Where runtime mode computes mels: on the host, or from int16 audio in the compiled step"),
    )
    data_service: list[Name] = Field(
        default_factory=list,
        description=(
            "Loaders on other machines (myxtts serve-data), host:port, that compute the batches of runtime mode; "
            "private network only"
        ),
    )
    auto_tune_performance: bool = Field(
        True, description="Tune keys that are not set for this machine: a preset by its GPU, workers by its CPUs"
    )

    @model_validator(mode="after")
    def _consistent(self) -> DataConfig:
        if self.train_split + self.val_split > 1 + 1e-9:
            raise ValueError(
                f"train_split + val_split should be at most 1 (got {self.train_split + self.val_split:g})"
            )
        if self.win_length > self.n_fft:
            raise ValueError(f"win_length should be at most n_fft ({self.n_fft}, got {self.win_length})")
        if self.hop_length > self.n_fft or (self.n_fft - self.hop_length) % 2:
            raise ValueError(
                f"n_fft - hop_length should be even and not negative (got {self.n_fft} - {self.hop_length})"
            )
        if self.mel_fmax > self.sample_rate / 2:
            limit = self.sample_rate / 2
            raise ValueError(f"mel_fmax should be at most sample_rate / 2 ({limit:g}, got {self.mel_fmax:g})")
        if self.mel_fmin >= self.mel_fmax:
            raise ValueError(f"mel_fmin should be below mel_fmax ({self.mel_fmax:g}, got {self.mel_fmin:g})")
        if self.data_service and self.preprocessing_mode != "runtime":
            raise ValueError(
                "data_service needs preprocessing_mode: runtime (the batches of a store are not sent: reading it is "
                "seven times as fast)"
            )
        if self.data_service and (self.feature_device != "host" or not self.use_tf_native_loading):
            raise ValueError("data_service needs feature_device: host and use_tf_native_loading: true")
        if (self.metadata_train_file is None) != (self.metadata_eval_file is None):
            raise ValueError("metadata_train_file and metadata_eval_file should be given together")
        if self.trust_store and not self.in_parts:
            raise ValueError("trust_store is for a store in parts: set max_clips_per_part, or name several data sets")
        if self.trust_store and self.preprocessing_mode == "runtime":
            raise ValueError("trust_store needs a store, and preprocessing_mode runtime has none")
        for key in ("data_weights", "data_languages"):
            given, data_sets = len(getattr(self, key)), len(self.dataset_paths)
            if given and (given != data_sets or data_sets == 1):
                raise ValueError(
                    f"{key} should have one entry for each data set of several ({data_sets}, got {given})"
                )
        return self

    @property
    def dataset_paths(self) -> list[str]:
        """The folders of the data sets, one or several."""
        return [self.dataset_path] if isinstance(self.dataset_path, str) else self.dataset_path

    @property
    def dataset_folder(self) -> str:
        """The folder of the data set, where there is one only."""
        (folder,) = self.dataset_paths
        return folder

    @property
    def in_parts(self) -> bool:
        """Whether features are kept in a store of several parts."""
        return self.max_clips_per_part is not None or len(self.dataset_paths) > 1

    def of_data_sets(self, paths: Sequence[str]) -> DataConfig:
        """The same for other data sets, in these folders."""
        changed = _folders(list(paths))
        same = changed == self.dataset_path
        return self.model_copy(
            update={"dataset_path": changed} | ({} if same else {"data_weights": [], "data_languages": []})
        )

    def for_each_data_set(self) -> list[DataConfig]:
        """The section of each of several data sets by itself."""
        if isinstance(self.dataset_path, str):
            return [self]
        languages = self.data_languages or [self.language] * len(self.dataset_path)
        return [
            self.of_data_sets([path]).model_copy(update={"language": language})
            for path, language in zip(self.dataset_path, languages, strict=True)
        ]

    @property
    def workers(self) -> int:
        """`num_workers` with `auto` resolved to the CPUs this process may use."""
        return usable_cpus() if self.num_workers == "auto" else self.num_workers

    @property
    def prefetch(self) -> int:
        """`prefetch_buffer_size` with `auto` resolved: two batches per worker, between 4 and 16."""
        if self.prefetch_buffer_size == "auto":
            return min(16, max(4, 2 * self.workers))
        return self.prefetch_buffer_size


class TrainingConfig(Section):
    """Training."""

    title: ClassVar[str] = "training"
    before: ClassVar[dict[str, Any]] = {"mel_adversarial_share": 0.0}

    epochs: Int = Field(1000, ge=1, description="Passes over the training clips")
    max_steps: Int | None = Field(
        None, ge=1, description="Stop after this many optimizer steps; none: after the epochs"
    )
    seed: Int = Field(
        0, ge=0, lt=2**63, description="Seed of the initial weights, the order of the clips and the noise"
    )
    deterministic: bool = Field(False, description="The same seed gives the same losses, bit for bit (slower)")
    device: Literal["auto", "cpu", "gpu"] = Field(
        "auto", description="Where to train; auto: the GPU if TensorFlow can use one"
    )
    optimization_level: Literal["basic", "enhanced", "experimental"] = Field(
        "enhanced",
        description=(
            "basic: graph only; enhanced: XLA, mixed precision on a GPU, prefetch to the GPU; experimental: also "
            "compute features on the GPU"
        ),
    )
    enable_graph_mode: bool = Field(True, description="Compile the step into a graph; false: only for debugging")
    enable_xla_compilation: bool = Field(True, description="Compile the step with XLA")
    background_compilation: bool = Field(
        True,
        description=(
            "Under XLA, compute steps without it until a thread has compiled them; not with deterministic, nor with "
            "several processes"
        ),
    )
    compilation_cache: bool = Field(
        True, description="Keep what XLA compiles in the user's cache folder, so that later runs begin sooner"
    )
    enable_eager_debug: bool = Field(False, description="Run the step eagerly, line by line; only for debugging")
    mixed_precision: Literal["auto", "off", "float16", "bfloat16"] = Field(
        "auto",
        description=(
            "Number format of the step; auto: float16 or bfloat16 on a GPU that is faster with it, off on a CPU"
        ),
    )
    gpu_memory_limit_mb: Int | None = Field(
        None, ge=256, description="Most GPU memory to use, in MiB; none: as much as needed"
    )

    learning_rate: Float = Field(1e-3, gt=0, le=1, description="Peak learning rate of AdamW")
    warmup_steps: Int = Field(500, ge=0, description="Steps of linear warm-up")
    schedule: Literal["cosine", "constant"] = Field("cosine", description="Learning rate after the warm-up")
    final_learning_rate: Float = Field(1e-5, ge=0, le=1, description="Learning rate at the end of the cosine")
    adam_beta1: Float = Field(0.9, ge=0, lt=1, description="First moment decay of AdamW")
    adam_beta2: Float = Field(0.98, ge=0, lt=1, description="Second moment decay of AdamW")
    weight_decay: Float = Field(0.01, ge=0, le=1, description="Decoupled weight decay of AdamW")
    gradient_clip_norm: Float | None = Field(
        1.0, gt=0, description="Clip gradients to this global norm; none: do not clip"
    )
    gradient_accumulation_steps: Int = Field(1, ge=1, description="Batches per optimizer step")
    ema_decay: Float | None = Field(
        0.999,
        gt=0,
        lt=1,
        description="Decay of the averaged weights that synthesis uses; lower in short runs; none: no average",
    )
    mel_adversarial_share: Float = Field(
        0.6,
        ge=0,
        le=1,
        description=(
            "Share of the steps, the last ones, in which a discriminator judges the mels of the regression decoder; "
            "runs of fewer than 2,000 steps have none, unless it is 1"
        ),
    )
    mel_adversarial_weight: Float = Field(
        0.2, ge=0, description="Weight of that discriminator beside the distance from the recording"
    )
    freeze_alignment_after: Int | None = Field(
        None,
        ge=1,
        description="After this step, store each clip's alignment and reuse it; none: search in every step",
    )

    checkpoint_dir: Name = Field("./runs/default", description="Folder of the run: checkpoints, logs, timing")
    keep_checkpoints: Int = Field(3, ge=1, description="Number of newest checkpoints to keep, besides the best one")
    save_every: Int = Field(1000, ge=1, description="Steps between checkpoints")
    validate_every: Int = Field(1000, ge=1, description="Steps between validations")
    early_stopping_patience: Int | None = Field(
        None, ge=1, description="Stop after this many validations without a better loss; none: never"
    )
    max_nonfinite_steps: Int = Field(
        10, ge=1, description="Stop after this many steps in a row whose loss or gradient is not finite"
    )
    log_every: Int = Field(50, ge=1, description="Steps after which the losses are read from the device")
    report_every_epochs: Int = Field(10, ge=1, description="Epochs between performance reports")
    enable_tensorboard: bool = Field(True, description="Write TensorBoard logs into the run's folder")


class VocoderConfig(Section):
    """The vocoder, and how it is trained (train-vocoder)."""

    title: ClassVar[str] = "vocoder"

    vocoder_size: Literal["tiny", "base"] = Field(
        "tiny", description="tiny: 2 million parameters, for CPUs; base: 14 million, for GPUs"
    )
    segment_frames: Int = Field(
        36, ge=16, description="Mel frames of a segment that the vocoder is trained on; batch_size segments a batch"
    )
    adversarial_share: Float = Field(
        0.5,
        ge=0,
        le=1,
        description="Share of the steps, the last ones, in which discriminators train the vocoder; 0: none of them",
    )
    adversarial_weight: Float = Field(
        0.2, ge=0, description="Weight of the discriminators beside the distance from the recording"
    )
    period_discriminators: bool = Field(
        False, description="Discriminators that look at samples as well as spectrograms; for GPUs"
    )
