"""What a bundle says about itself to people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SPEAK = """## Speak

```bash
pip install 'myxtts[{extras}]'
myxtts synthesize --checkpoint {name} --text "Hello there." --output hello.wav
myxtts clone-voice --checkpoint {name} --reference me.wav --text "Is this me?" --output me-speaking.wav
```

```python
from myxtts import XTTSInference

speaker = XTTSInference("{name}")
speech = speaker.synthesize("Hello there.")
```

TensorFlow is not needed.
"""

_SERVE = """## Serve

The folder `1` is a SavedModel with the signatures `speak`, `voice` and, if its vocoder is one of MyXTTS's own,
`vocode`. TF Serving takes this folder as `--model_base_path`. Texts become `tokens` by MyXTTS (`myxtts text`).
"""


def text(name: str, manifest: Mapping[str, Any]) -> str:
    """The README of a bundle in a folder of this name."""
    phonemes = manifest["config"]["text_symbols"] == "phonemes"
    extras = [*(["speech"] if phonemes else []), *(["vocoders"] if manifest["runs_with"] == "litert" else [])]
    use = _SERVE if manifest["runs_with"] == "saved-model" else _SPEAK.format(name=name, extras=",".join(extras))
    install = use.replace("pip install 'myxtts[]'", "pip install myxtts")
    agreement = manifest["agreement"]
    return f"""# {name}

A voice for text-to-speech, exported by MyXTTS {manifest["myxtts"]}.

| | |
|---|---|
| runs with | {manifest["runs_with"]} |
| languages | {", ".join(manifest["languages"])} |
| voices | {", ".join(manifest["voices"])} |
| sample rate | {manifest["config"]["sample_rate"]} Hz |
| vocoder | {manifest["vocoder"]["kind"]} |
| weights of 8 bits | {", ".join(manifest["quantized"]) or "none"} |
| compared with the model | {agreement["sentences"]} sentences, mels differ by {agreement["difference"]:.1g} at most |

{install}"""
