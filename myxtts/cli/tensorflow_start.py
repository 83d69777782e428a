"""TensorFlow's start, without what it writes before its own logging can be told to be quiet."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile


def start_tensorflow() -> None:
    """Imports TensorFlow and finds its devices; what it says meanwhile is shown only if that fails.

    Its first lines (`absl::InitializeLog`, missing CUDA drivers) come from C++ and heed no setting. What a GPU that
    cannot be used means, and what to do, the commands say themselves.
    """
    if "tensorflow" in sys.modules or os.environ.get("TF_CPP_MIN_LOG_LEVEL") in ("0", "1"):
        return
    sys.stderr.flush()
    shown = os.dup(2)
    with tempfile.TemporaryFile() as aside:
        os.dup2(aside.fileno(), 2)
        try:
            import tensorflow as tf

            tf.config.list_physical_devices()
        except BaseException:
            aside.seek(0)
            with os.fdopen(os.dup(shown), "wb") as stderr:
                shutil.copyfileobj(aside, stderr)
            raise
        finally:
            os.dup2(shown, 2)
            os.close(shown)
