"""The program where the extra `train` is not installed: `python tests/without_train_extra.py synthesize …`."""

from __future__ import annotations

import sys


class NotInstalled:
    """Finds nothing of what only training needs."""

    def find_spec(self, name: str, *_: object) -> None:
        if name.partition(".")[0] in ("tensorflow", "keras", "tensorboard", "scipy"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


if __name__ == "__main__":
    sys.meta_path.insert(0, NotInstalled())
    from myxtts.cli.app import main

    main()
