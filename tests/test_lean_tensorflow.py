"""TensorFlow as the tests start it: without what takes longer than what they compute."""

from __future__ import annotations

import subprocess
import sys

import tensorflow as tf

PROGRAM = """
import sys
import tensorflow as tf
print(tf.config.optimizer.get_experimental_options()["disable_meta_optimizer"], "sklearn" in sys.modules)
"""


def test_graphs_are_not_rewritten_in_this_process() -> None:
    assert tf.config.optimizer.get_experimental_options()["disable_meta_optimizer"]


def test_forked_programs_rewrite_no_graphs_and_have_imported_no_scikit_learn(python_with_tensorflow: str) -> None:
    done = subprocess.run([python_with_tensorflow, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout == "True False\n"


def test_scikit_learn_is_hidden_from_nobody_else() -> None:
    assert sys.modules.get("sklearn", "not imported") is not None
