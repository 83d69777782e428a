"""Writes down what a run has to tell, in a thread beside it: the log file, TensorBoard, and the observer's lines.

Reading losses from the device, drawing mels and computing audio all happen here, so that the loop never waits for
them. What it costs shows in the performance report, since on a CPU it takes time from the step.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf

from myxtts.performance.monitor import PerformanceMonitor
from myxtts.training.record_file import RecordFile
from myxtts.training.samples import Sample, alignment_picture, mel_picture
from myxtts.training.step import MeanLosses
from myxtts.training.step_times import Rates
from myxtts.training.validation import Validation

logger = logging.getLogger(__name__)

READING = "read losses (beside training)"
TENSORBOARD = "write TensorBoard (beside training)"

Vocoder = Callable[[np.ndarray], np.ndarray]  # float32 [F, n_mels] → float32 [n]


class Journal:
    """The records of a run.

    Args:
        log: the log file.
        tensorboard: folder of TensorBoard's files; none: none are written.
        monitor: gets what the thread spends.
        sample_rate: of the audio.
        vocoder: makes audio of spoken mels; none: no audio is written.
    """

    def __init__(
        self,
        log: RecordFile,
        tensorboard: Path | None,
        monitor: PerformanceMonitor,
        sample_rate: int,
        vocoder: Vocoder | None = None,
    ) -> None:
        self._log = log
        self._folder = tensorboard
        self._monitor = monitor
        self._sample_rate = sample_rate
        self._vocoder = vocoder
        self._writer: tf.summary.SummaryWriter | None = None
        self._true_audio_written = False
        self._tasks: queue.Queue[tuple[str, Callable[[], None]] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._work, name="journal", daemon=True)
        self._thread.start()

    def configuration(self, text: str) -> None:
        """The configuration, as YAML."""
        indented = "".join(f"    {line}\n" for line in text.splitlines())  # a code block in Markdown
        self._draw(0, lambda: tf.summary.text("configuration", indented))

    def losses(
        self, step: int, batch: int, totals: tf.Tensor, rates: Rates, then: Callable[[MeanLosses], None]
    ) -> None:
        """Losses since the last reading.

        Args:
            step, batch: done so far.
            totals: from `TrainingStep.read`.
            rates: of the same steps.
            then: called with the losses once they are there.
        """

        def write() -> None:
            losses = MeanLosses.of(totals)
            self._log.write({"batch": batch, "step": step, **vars(losses)})
            self._log.flush()
            then(losses)
            self._draw(step, lambda: _scalars(losses, rates))

        self._tasks.put((READING, write))

    def validation(self, step: int, batch: int, validation: Validation, best: bool) -> None:
        """Losses on the validation clips."""
        values = {key: value if np.isfinite(value) else None for key, value in validation.to_dict().items()}
        self._log.write({"batch": batch, "step": step, "validation": values, "best": best})
        self._log.flush()

        def draw() -> None:
            for name, value in validation.to_dict().items():
                tf.summary.scalar(f"validation/{name}", value)

        self._draw(step, draw)

    def samples(self, step: int, speak: Callable[[], list[Sample]]) -> None:
        """Fixed sentences, as mels, alignments and audio."""

        def draw() -> None:
            for number, sample in enumerate(speak()):
                tf.summary.image(f"mel/{number}", mel_picture(sample)[None])
                if len(sample.alignment):
                    tf.summary.image(f"alignment/{number}", alignment_picture(sample)[None])
                if self._vocoder is None:
                    continue
                if len(sample.mel):
                    self._audio(f"audio/{number}", self._vocoder(sample.mel))
                if not self._true_audio_written:
                    self._audio(f"audio/{number} true mel", self._vocoder(sample.true_mel))
            self._true_audio_written = True

        self._draw(step, draw)

    def wait(self) -> None:
        """Blocks until everything so far is written."""
        self._tasks.join()

    def close(self) -> None:
        """Writes what is left and ends the thread."""
        # A task may add another one, which the end would otherwise overtake.
        self._tasks.join()
        self._tasks.put(None)
        self._thread.join()
        if self._writer is not None:
            self._writer.close()
        self._log.close()

    def _audio(self, name: str, audio: np.ndarray) -> None:
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
        # Pictures and audio are the host's business, also where the step runs on a GPU.
        with tf.device("/CPU:0"):
            while (task := self._tasks.get()) is not None:
                name, write = task
                began = time.perf_counter()
                try:
                    write()
                except Exception as error:
                    # A run is worth more than its pictures.
                    if not failed:
                        logger.warning("%s failed: %s: %s; training goes on", name, type(error).__name__, error)
                    failed = True
                self._monitor.log_operation(name, time.perf_counter() - began)
                self._tasks.task_done()


def _scalars(losses: MeanLosses, rates: Rates) -> None:
    for name in ("total", "prior", "decoder", "duration"):
        tf.summary.scalar(f"loss/{name}", getattr(losses, name))
    tf.summary.scalar("optimizer/gradient_norm", losses.gradient_norm)
    tf.summary.scalar("optimizer/learning_rate", losses.learning_rate)
    if rates.steps:
        tf.summary.scalar("timing/clips_per_second", rates.clips_per_second)
        tf.summary.scalar("timing/data_ms", rates.data_ms)
        tf.summary.scalar("timing/stall_share", rates.stall_share)
        tf.summary.scalar("timing/step_ms", rates.step_ms)
