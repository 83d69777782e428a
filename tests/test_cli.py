"""The program as a whole: help, exit codes, JSON, interruption."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from myxtts import __version__
from myxtts.cli.app import app
from myxtts.cli.options import ConfigOptions

Run = Callable[..., "subprocess.CompletedProcess[str]"]

COMMANDS = typer.main.get_group(app).commands

# Prints which of the modules that are slow to import the command has loaded.
WITHOUT_TENSORFLOW = """
import sys
from myxtts.cli.app import _run
code = _run(sys.argv[1:])
loaded = sorted({"tensorflow", "keras", "torch", "librosa", "matplotlib"} & sys.modules.keys())
sys.exit(f"loaded {loaded}" if loaded else code)
"""


def test_the_version_is_printed(run_myxtts: Run) -> None:
    assert run_myxtts("--version").stdout == f"myxtts {__version__}\n"


def test_help_lists_every_command(run_myxtts: Run) -> None:
    listed = run_myxtts("--help").stdout
    assert all(name in listed for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_an_example_and_json_and_quiet(name: str) -> None:
    command = COMMANDS[name]
    assert re.search(rf"Example: myxtts {name}\b", command.help or ""), "no example in the help"
    options = {option for parameter in command.params for option in parameter.opts}
    assert {"--json", "--quiet"} <= options


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        *([name, "--help"] for name in COMMANDS),
        ["show-config"],
        ["create-config", "--output", "new.yaml"],
    ],
    ids=" ".join,
)
def test_tensorflow_is_not_imported_without_need(arguments: list[str], tmp_path: Path, python: str) -> None:
    done = subprocess.run(
        [python, "-c", WITHOUT_TENSORFLOW, *arguments], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no-such-command"], "No such command"),
        (["show-config", "--no-such-option"], "No such option"),
        (["show-config", "--batch-size", "many"], "--batch-size"),
        (["show-config", "--batch-size", "0"], "command line: data.batch_size: should be greater"),
        (["show-config", "--set", "n_mel=3"], "did you mean 'n_mels'?"),
        (["show-config", "--set", "n_mels"], "KEY=VALUE"),
        (["show-config", "--set", "training.n_mels=3"], "is in section data"),
        (["show-config", "--preset", "rtx"], "no preset 'rtx'"),
        (["show-config", "--config", "none.yaml"], "none.yaml: no such file"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_wrong_usage_ends_in_code_2_and_short_lines(run_myxtts: Run, arguments: list[str], message: str) -> None:
    done = run_myxtts(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) <= 3
    assert "Traceback" not in done.stderr


def test_create_config_writes_what_was_asked_for(run_myxtts: Run, tmp_path: Path) -> None:
    path = tmp_path / "my.yaml"
    wanted = [
        "--preset",
        "rtx4090",
        "--preprocessing-mode",
        "precompute",
        "--batch-size",
        48,
        "--epochs",
        1000,
    ]
    done = run_myxtts("create-config", "--output", path, *wanted)
    assert (done.returncode, done.stdout) == (0, f"wrote {path}\n")
    shown = json.loads(run_myxtts("show-config", "--config", path, "--json").stdout)
    assert shown["data.batch_size"] == {"value": 48, "source": str(path)}
    assert shown["data.num_workers"]["value"] == 24
    assert shown["data.preprocessing_mode"]["value"] == "precompute"
    assert shown["training.epochs"]["value"] == 1000


def test_create_config_replaces_a_file_only_with_force(run_myxtts: Run, tmp_path: Path) -> None:
    path = tmp_path / "my.yaml"
    path.write_text("precious")
    done = run_myxtts("create-config", "--output", path)
    assert (done.returncode, path.read_text()) == (2, "precious")
    assert "--force" in done.stderr
    assert run_myxtts("create-config", "--output", path, "--force").returncode == 0


def test_show_config_says_where_each_value_came_from(run_myxtts: Run) -> None:
    lines = run_myxtts("show-config", "--preset", "max-gpu", "--disable-gpu-prefetch").stdout.splitlines()
    rows = {line.split()[0]: line.split() for line in lines}
    assert rows["data.batch_size"][1:] == ["48", "preset", "max-gpu"]
    assert rows["data.prefetch_to_gpu"][1:] == ["False", "command", "line"]
    assert rows["data.enhanced_gpu_prefetch"][1:] == ["False", "command", "line"]
    assert rows["data.n_mels"][1:] == ["80", "default"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, (32, 9000)),
        ({"batch_size": 8}, (8, None)),
        ({"settings": ["batch_size=8"]}, (8, None)),
        ({"batch_size": 8, "settings": ["max_frames_per_batch=500"]}, (8, 500)),
        ({"settings": ["max_frames_per_batch=null"]}, (32, None)),
    ],
)
def test_a_batch_size_replaces_the_frame_budget_of_the_file(
    tmp_path: Path, given: dict[str, Any], expected: tuple[int, int | None]
) -> None:
    path = tmp_path / "my.yaml"
    path.write_text("{batch_size: 32, max_frames_per_batch: 9000}")
    data = ConfigOptions(config=path, **given).load(machine=()).config.data
    assert (data.batch_size, data.max_frames_per_batch) == expected


def test_words_that_yaml_reads_as_booleans_are_words_on_the_command_line() -> None:
    settings = ["language=no", "mixed_precision=off", "training.deterministic=yes", "auto_tune_performance=no"]
    resolved = ConfigOptions(settings=settings).load(machine=())
    training = resolved.config.training
    assert (resolved.config.data.language, training.mixed_precision, training.deterministic) == ("no", "off", True)
    assert resolved.sources["data.batch_size"] == "default"


def test_a_key_without_effect_is_one_line_on_standard_error(run_myxtts: Run, tmp_path: Path) -> None:
    path = tmp_path / "old.yaml"
    path.write_text("data: {shuffle_buffer_multiplier: 10}")
    done = run_myxtts("show-config", "--config", path, "--json")
    assert json.loads(done.stdout)
    assert done.stderr.startswith("warning: data.shuffle_buffer_multiplier has no effect")
    assert len(done.stderr.splitlines()) == 1
    assert run_myxtts("show-config", "--config", path, "--quiet").stderr == ""


@pytest.mark.long
def test_a_reader_that_closes_the_pipe_early_causes_no_error() -> None:
    command = f"{sys.executable} -m myxtts show-config | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.stdout.startswith("key")
    assert done.stderr == ""


def test_ctrl_c_ends_in_one_line(python: str) -> None:
    sleeper = (
        "import time; import myxtts.cli.app as program\n"
        "program.app.registered_commands.clear()\nprogram.commands.cache_clear()\n"
        "@program.app.command()\n"
        "def wait():\n    print('waiting', flush=True); time.sleep(3600)\n"
        "program.main(['wait'])\n"
    )
    process = subprocess.Popen([python, "-c", sleeper], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=1800)
    assert errors == "error: interrupted\n"
    assert process.returncode == 130


def test_importing_the_package_and_its_configuration_loads_nothing_slow() -> None:
    program = (
        "import sys, myxtts\n"
        "loaded = {'tensorflow', 'keras', 'numpy', 'pydantic'} & sys.modules.keys()\n"
        "assert not loaded, loaded\n"
        "assert {'LJSpeechDataset', 'XTTSConfig', 'XTTSInference', 'XTTSTrainer', 'diagnose'} <= set(dir(myxtts))\n"
        "from myxtts import XTTSConfig\n"
        "assert 'tensorflow' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_name_that_the_package_does_not_have_is_refused() -> None:
    import myxtts

    with pytest.raises(AttributeError, match="module 'myxtts' has no attribute 'Trainer'"):
        myxtts.Trainer  # type: ignore[attr-defined]  # noqa: B018
