"""The log file and TensorBoard, written by a thread of their own.

Reading losses from the device, drawing mels and computing audio all happen in that thread, so the training loop never
waits for them. On a CPU they still take time from the step, so the performance report shows what they cost.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.performance.monitor import PerformanceMonitor
from myxtts.training.objective import Sample
from myxtts.training.record_file import RecordFile
from myxtts.training.step import MeanLosses
from myxtts.training.step_times import Rates

logger = logging.getLogger(__name__)

READING = "read losses (beside training)"
TENSORBOARD = "write TensorBoard (beside training)"

MelToAudio = Callable[[np.ndarray], np.ndarray]  # float32 [F, n_mels] → float32 [n]


class RunLog:
    """Writes the log file and TensorBoard of a run.

    Args:
        log: the log file; none: none is written.
        tensorboard: folder of TensorBoard's files; none: none are written.
        monitor: records the time that the thread takes.
        sample_rate: of the audio.
        vocoder: makes audio of generated mels; none: no audio is written.
    """

    def __init__(
        self,
        log: RecordFile | None,
        tensorboard: Path | None,
        monitor: PerformanceMonitor,
        sample_rate: int,
        vocoder: MelToAudio | None = None,
    ) -> None:
        self._log = log
        self._folder = tensorboard
        self._monitor = monitor
        self._sample_rate = sample_rate
        self._vocoder = vocoder
        self._writer: tf.summary.SummaryWriter | None = None
        self._true_audio_written = False
        self._tasks: queue.Queue[tuple[str, Callable[[], None]] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._work, name="run-log", daemon=True)
        self._thread.start()

    def configuration(self, text: str) -> None:
        """Writes the configuration, as YAML."""
        indented = "".join(f"    {line}\n" for line in text.splitlines())  # a code block in Markdown
        self._draw(0, lambda: tf.summary.text("configuration", indented))

    def losses(
        self,
        step: int,
        batch: int,
        totals: tf.Tensor,
        names: Sequence[str],
        rates: Rates,
        then: Callable[[MeanLosses], None],
    ) -> None:
        """Writes the training losses since the last reading.

        Args:
            step, batch: numbers of steps and batches done.
            totals: from `TrainingStep.read`.
            names: of the losses.
            rates: of the same steps.
            then: called with the losses, in the thread, once they are read from the device.
        """

        def write() -> None:
            losses = MeanLosses.of(totals, names)
            self._write({"batch": batch, "step": step, **losses.to_dict()})
            then(losses)
            self._draw(step, lambda: _scalars(losses, rates))

        self._tasks.put((READING, write))

    def validation(self, step: int, batch: int, losses: Mapping[str, float], best: bool) -> None:
        """Writes the losses on the validation clips."""
        values = {name: value if np.isfinite(value) else None for name, value in losses.items()}
        self._write({"batch": batch, "step": step, "validation": values, "best": best})

        def draw() -> None:
            for name, value in losses.items():
                tf.summary.scalar(f"validation/{name}", value)

        self._draw(step, draw)

    def samples(self, step: int, speak: Callable[[], list[Sample]]) -> None:
        """Writes generated sentences as mels, alignments and audio."""

        def draw() -> None:
            for number, sample in enumerate(speak()):
                tf.summary.image(f"mel/{number}", mel_picture(sample)[None])
                if len(sample.alignment):
                    tf.summary.image(f"alignment/{number}", alignment_picture(sample)[None])
                self._audio(f"audio/{number}", sample.audio, sample.mel)
                if not self._true_audio_written:
                    self._audio(f"audio/{number} true mel", sample.true_audio, sample.true_mel)
            self._true_audio_written = True

        self._draw(step, draw)

    def wait(self) -> None:
        """Waits until everything so far is written."""
        self._tasks.join()

    def close(self) -> None:
        """Writes the rest and ends the thread."""
        # A running task may add another, which must be written before the end.
        self._tasks.join()
        self._tasks.put(None)
        self._thread.join()
        if self._writer is not None:
            self._writer.close()
        if self._log is not None:
            self._log.close()

    def _write(self, record: Mapping[str, Any]) -> None:
        if self._log is not None:
            self._log.write(record)
            self._log.flush()

    def _audio(self, name: str, audio: np.ndarray | None, mel: np.ndarray) -> None:
        """Writes audio; if there is none, that of the mel."""
        if audio is None and self._vocoder is not None and len(mel):
            audio = self._vocoder(mel)
        if audio is None:
            return
        tf.summary.audio(name, np.clip(audio, -1, 1)[None, :, None], self._sample_rate)

    def _draw(self, step: int, draw: Callable[[], None]) -> None:
        if self._folder is None:
            return

        def write() -> None:
            if self._writer is None:
                self._writer = tf.summary.create_file_writer(str(self._folder))
            with self._writer.as_default(step=step):
                draw()
            self._writer.flush()

        self._tasks.put((TENSORBOARD, write))

    def _work(self) -> None:
        failed = False
        # Pictures and audio are made on the host, also when the step runs on a GPU.
        with tf.device("/CPU:0"):
            while (task := self._tasks.get()) is not None:
                name, write = task
                began = time.perf_counter()
                try:
                    write()
                except Exception as error:
                    # A picture that cannot be drawn must not end the run.
                    if not failed:
                        logger.warning("%s failed: %s: %s; training goes on", name, type(error).__name__, error)
                    failed = True
                self._monitor.log_operation(name, time.perf_counter() - began)
                self._tasks.task_done()


def _scalars(losses: MeanLosses, rates: Rates) -> None:
    for name, value in losses.losses.items():
        tf.summary.scalar(f"loss/{name}", value)
    tf.summary.scalar("optimizer/gradient_norm", losses.gradient_norm)
    tf.summary.scalar("optimizer/learning_rate", losses.learning_rate)
    if rates.steps:
        for name in ("clips_per_second", "data_ms", "stall_share", "step_ms"):
            tf.summary.scalar(f"timing/{name}", getattr(rates, name))


def mel_picture(sample: Sample) -> np.ndarray:
    """The recorded mel above the generated one: float32 [rows, frames, 1], 0 to 1, low bands at the bottom."""
    width = max(len(sample.mel), len(sample.true_mel))
    low = min(float(sample.true_mel.min()), float(sample.mel.min())) if width else 0.0
    high = max(float(sample.true_mel.max()), float(sample.mel.max()), low + 1e-6) if width else 1.0
    pictures = []
    for mel in (sample.true_mel, sample.mel):
        padded = np.full((width, mel.shape[1]), low, np.float32)
        padded[: len(mel)] = mel
        pictures.append((padded.T[::-1] - low) / (high - low))
    gap = np.ones((2, width), np.float32)
    return np.concatenate([pictures[0], gap, pictures[1]])[:, :, None]


def alignment_picture(sample: Sample) -> np.ndarray:
    """The token of each frame: float32 [tokens, frames, 1], the first token at the bottom."""
    picture = np.zeros((sample.tokens, len(sample.alignment)), np.float32)
    inside = sample.alignment >= 0
    picture[sample.alignment[inside], np.flatnonzero(inside)] = 1.0
    return picture[::-1, :, None]
