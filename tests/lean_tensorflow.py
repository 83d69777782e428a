"""Importing this module makes TensorFlow start sooner, and run a new graph sooner, in this process.

What a test computes is small and runs a few times. Most of its time goes into what TensorFlow does before: rewriting
the graph for speed (Grappler), and importing scikit-learn, which Keras does where it is installed.

Where times count, `TENSORFLOW_AS_FOR_USERS` is set in the environment, and nothing is changed.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType


class _LeanTensorFlow:
    """Finds TensorFlow as any import does, and sets it up as soon as it is imported."""

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        if name != "tensorflow":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_lean(module: ModuleType) -> None:
                from myxtts.cli.machine_config import without_scikit_learn

                with without_scikit_learn():
                    execute(module)
                module.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})

            spec.loader.exec_module = execute_lean  # type: ignore[method-assign]
        return spec


if "tensorflow" not in sys.modules and "TENSORFLOW_AS_FOR_USERS" not in os.environ:
    sys.meta_path.insert(0, _LeanTensorFlow())
