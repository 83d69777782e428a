"""Makes `myxtts/text/persian_reading/tagger.npz` from the tagger in the PyPI package gruut-lang-fa 2.0.1 (MIT).

    pip download --no-deps gruut-lang-fa==2.0.1 && tar xzf gruut_lang_fa-2.0.1.tar.gz
    .venv/bin/python tools/make_persian_model.py gruut_lang_fa-2.0.1/gruut_lang_fa/pos/postagger.model

The tagger is a text file of 69 MB in Wapiti's format. Kept are the weights of at least `--smallest`, as 8-bit
integers, of words that keep at least one weight. `benchmarks/bench_persian.py` shows what that costs.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from myxtts.text.persian_reading.tagger import OFFSETS

_WORD_TEMPLATES = {"u:wll": -2, "u:wl": -1, "u:w": 0, "u:wr": 1, "u:wrr": 2}
_EDGES = {"_x-2", "_x-1", "_x+1", "_x+2"}
_TARGET = Path(__file__).parents[1] / "myxtts" / "text" / "persian_reading" / "tagger.npz"


class _WapitiFile:
    """A model that Wapiti wrote as text: labels, observations, and weights by number."""

    def __init__(self, path: Path) -> None:
        self._content = path.read_bytes()
        self._place = 0
        self._line()
        templates = int(self._line().split(b"#")[2].split(b"/")[0])
        for _ in range(templates):
            self._string()
        self.labels = [label.decode() for label in self._strings()]
        self.observations = self._strings()
        entries = [line.split(b"=") for line in self._content[self._place :].splitlines() if line]
        self.numbers = np.array([int(number) for number, _ in entries])
        self.weights = np.array([float.fromhex(weight.decode()) for _, weight in entries], np.float32)

    def _line(self) -> bytes:
        end = self._content.index(b"\n", self._place)
        line = self._content[self._place : end]
        self._place = end + 1
        return line

    def _string(self) -> bytes:
        colon = self._content.index(b":", self._place)
        length = int(self._content[self._place : colon])
        self._place = colon + 1 + length + 2  # a comma and the end of the line
        return self._content[colon + 1 : colon + 1 + length]

    def _strings(self) -> list[bytes]:
        return [self._string() for _ in range(int(self._line().split(b"#")[2]))]


def make(source: Path, target: Path, smallest: float) -> None:
    model = _WapitiFile(source)
    count = len(model.labels)
    sizes = np.array([count if name.startswith(b"u") else count * (count + 1) for name in model.observations])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    kept = np.abs(model.weights) >= smallest
    numbers, weights = model.numbers[kept], model.weights[kept]
    owners = np.searchsorted(starts, numbers, "right") - 1
    scale = float(np.abs(weights).max()) / 127
    # Most weights are small: one step of the large ones would be too coarse for them.
    scale = min(scale, 8 / 127)
    quantized = np.clip(np.round(weights / scale), -127, 127).astype(np.int8)

    words: dict[tuple[int, str], list[tuple[int, int]]] = {}
    patterns: dict[bytes, list[tuple[int, int]]] = {}
    for owner, number, weight in zip(owners, numbers, quantized, strict=True):
        name, _, value = model.observations[owner].partition(b"=")
        place = int(number - starts[owner])
        offset = _WORD_TEMPLATES.get(name.decode())
        if weight == 0 or (offset is not None and b"_" in value and value.decode() not in _EDGES):
            continue  # with an underscore: verbs of several words, which we never join
        if offset is None:
            pattern = (name[2:] if len(name) > 1 else b"*") + (b"=" + value if value else b"")
            patterns.setdefault(pattern, []).append((place, int(weight)))
        else:
            words.setdefault((offset, value.decode()), []).append((place, int(weight)))
    vocabulary = sorted({word for _, word in words})
    counts, labels, values = [], [], []
    for offset in OFFSETS:
        for word in vocabulary:
            found = words.get((offset, word), [])
            counts.append(len(found))
            labels += [place for place, _ in found]
            values += [weight for _, weight in found]
    names = sorted(patterns)
    np.savez_compressed(
        target,
        labels=np.array(" ".join(model.labels)),
        scale=np.float32(scale),
        vocabulary=np.frombuffer("\n".join(vocabulary).encode(), np.uint8),
        word_counts=np.array(counts, np.uint8),
        word_labels=np.array(labels, np.uint8),
        word_weights=np.array(values, np.int8),
        patterns=np.frombuffer(b"\n".join(names), np.uint8),
        pattern_counts=np.array([len(patterns[name]) for name in names], np.uint16),
        pattern_places=np.array([place for name in names for place, _ in patterns[name]], np.uint16),
        pattern_weights=np.array([weight for name in names for _, weight in patterns[name]], np.int8),
    )
    print(
        f"{target}: {target.stat().st_size:,} bytes, {len(vocabulary):,} words, {len(values):,} weights of words, "
        f"{sum(map(len, patterns.values())):,} of patterns"
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("model", type=Path)
    arguments.add_argument("--smallest", type=float, default=0.02, help="weights below this are left out")
    arguments.add_argument("--target", type=Path, default=_TARGET)
    options = arguments.parse_args()
    make(options.model, options.target, options.smallest)


if __name__ == "__main__":
    main()
