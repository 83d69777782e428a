"""The documents say what is so: their commands, keys, imports and links exist, and what is generated is fresh."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from documents import DOCUMENTS, ROOT, CommandLine, Document
from pydantic import ValidationError
from small_corpus import RATE, make_corpus, write_audio

from myxtts.cli.app import app
from myxtts.cli.options import as_text
from myxtts.config.config import XTTSConfig, section_of
from myxtts.config.presets import load_preset
from myxtts.errors import ConfigError

COMMANDS = typer.main.get_group(app).commands
PERSIAN = [path for path in DOCUMENTS if path.parent.name == "fa" or path.name.endswith(".fa.md")]
TRANSLATED = ["getting-started.md", "performance-guide.md", "persian.md"]
# What makes a command that would train for days, or watch without end, stop soon.
SMALL = "--batch-size 4 --set optimization_level=basic --set num_buckets=1"
SHORTER = {
    "train": f"--max-steps 2 {SMALL}",
    "diagnose": f"--num-batches 10 {SMALL}",
    "evaluate": "--subset all --sentences 4 --candidates 2",
    "benchmark": "--num-batches 10 --batch-size 4",
    "monitor": "--duration 2",
}
WITHOUT_TENSORFLOW = {"check-data", "text", "create-config", "show-config", "precompute", "verify-cache"}

each_document = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))


def what_is_wrong(command: CommandLine) -> str | None:
    """Why the program would refuse a command line, or None."""
    name, arguments = (command.words or [""])[0], command.words[1:]
    if "--" in arguments:  # a program of the user's
        arguments = arguments[: arguments.index("--")]
    if name not in COMMANDS:
        return f"no command {name!r}"
    unknown = {word.partition("=")[0] for word in arguments if word.startswith("-")} - option_names(name)
    if unknown:
        return f"no option {', '.join(sorted(unknown))}"
    try:
        # Inside a sentence, what is left out is not missed.
        context = COMMANDS[name].make_context(name, list(arguments), resilient_parsing=not command.complete)
        if "preset" in context.params:
            check_configuration(context.params)
    except (typer.TyperException, ConfigError, ValidationError) as error:
        return str(error)
    return None


def option_names(name: str) -> set[str]:
    parameters = COMMANDS[name].params
    return {option for one in parameters for option in (*one.opts, *one.secondary_opts)} | {"--help"}


def check_configuration(parameters: dict[str, Any]) -> None:
    """Refuses presets, keys and values that do not exist, wherever in the options they stand."""
    if parameters["preset"]:
        load_preset(parameters["preset"])
    given = {key: value for key, value in parameters.items() if section_of(key) and value not in (None, ())}
    values = {key: as_text(value) for key, value in given.items()}
    if "data_service" in values:
        values["data_service"] = values["data_service"].split(",")
    settings = dict(setting.split("=", 1) for setting in parameters["settings"] or ())
    XTTSConfig(**values, **{key: yaml.safe_load(value) for key, value in settings.items()})


@each_document
def test_every_command_line_is_one_the_program_takes(path: Path) -> None:
    wrong = [
        f"{path.name}:{command.line}: {command}: {reason}"
        for command in Document(path).commands()
        if (reason := what_is_wrong(command)) is not None
    ]
    assert not wrong, "\n".join(wrong)


@each_document
def test_every_link_leads_somewhere(path: Path) -> None:
    document = Document(path)
    wrong = []
    for line, target in document.links():
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        there = path.parent / file if file else path
        if not there.exists() or (anchor and anchor not in Document(there).anchors()):
            wrong.append(f"{path.name}:{line}: {target}")
    assert not wrong, "\n".join(wrong)


def test_the_site_has_every_page_of_the_documents() -> None:
    # Names, without what their tags mean to the program that builds the site: it need not be installed here.
    nav = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]
    listed = re.findall(r"- (?:.+: )?(\S+\.md)$", nav, re.M)
    assert len(listed) == len(set(listed)), "a page is listed twice"
    outside = pages_outside_docs()
    assert set(outside) >= {path.name for path in ROOT.glob("*.md")}
    inside = {str(path.relative_to(ROOT / "docs")) for path in ROOT.glob("docs/**/*.md")}
    assert set(listed) == inside | set(outside.values())


def pages_outside_docs() -> dict[str, str]:
    """By document outside docs/, its page on the site; read from the source, which needs the site's program."""
    source = ast.parse((ROOT / "tools" / "site_hooks.py").read_text("utf-8"))
    assigned = {ast.unparse(node.targets[0]): node.value for node in source.body if isinstance(node, ast.Assign)}
    return ast.literal_eval(assigned["OUTSIDE"])


@each_document
def test_every_link_leads_to_a_page_of_the_site(path: Path) -> None:
    pages = {*(ROOT / name for name in pages_outside_docs()), *ROOT.glob("docs/**/*")}
    targets = [(line, target.partition("#")[0]) for line, target in Document(path).links()]
    wrong = [
        f"{path.name}:{line}: {target}"
        for line, target in targets
        if target and not re.match(r"[a-z]+:", target) and (path.parent / target).resolve() not in pages
    ]
    assert not wrong, "\n".join(wrong)


@each_document
def test_every_configuration_in_a_document_is_valid(path: Path) -> None:
    for line, block in Document(path).blocks("yaml"):
        try:
            XTTSConfig(**yaml.safe_load(block))
        except ValidationError as error:
            pytest.fail(f"{path.name}:{line}: {error}")


@each_document
def test_every_import_in_a_document_exists(path: Path) -> None:
    wrong = []
    for first, block in Document(path).blocks("python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("myxtts"):
                missing = {alias.name for alias in node.names} - names_in(node.module)
                wrong += [f"{path.name}:{first + node.lineno - 1}: {node.module}.{name}" for name in sorted(missing)]
    assert not wrong, "\n".join(wrong)


def names_in(module: str) -> set[str]:
    """What can be imported from a module, read from its source: importing it might load TensorFlow."""
    place = ROOT.joinpath(*module.split("."))
    source = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    names = set()
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name) for alias in node.names}
        elif isinstance(node, ast.Assign):
            assigned = {target.id for target in node.targets if isinstance(target, ast.Name)}
            names |= set(ast.literal_eval(node.value)) if assigned == {"__all__"} else assigned
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
    return names


def test_the_configuration_reference_and_the_presets_say_what_the_code_says(python: str) -> None:
    tool = ROOT / "tools" / "make_configuration_reference.py"
    done = subprocess.run([python, tool, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_folders_import_only_what_the_architecture_says() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    table = re.findall(r"^\| `([\w/]+)` \|[^|]+\|([^|]*)\|$", text, re.M)
    stated = {name: set(re.findall(r"`([\w/]+)`", imports)) for name, imports in table}
    imported = imports_between_folders(stated)
    assert set(stated) == imported.keys(), "a folder is missing in the table, or gone"
    names = list(stated)
    for position, name in enumerate(names):
        above = set(names[:position])
        assert stated[name] <= above, f"{name} stands above what it imports"
        assert imported[name] <= (above if name == "cli" else stated[name]), f"{name} imports more than is stated"


def imports_between_folders(names: Iterable[str]) -> dict[str, set[str]]:
    """What each folder, sub-folder or single module of the package imports of the others.

    Args:
        names: those to be told apart; a folder with none of them inside is one by itself.
    """
    known = sorted(names, key=len, reverse=True)

    def folder_of(parts: Sequence[str]) -> str:
        path = "/".join(parts)
        return next((name for name in known if f"{path}/".startswith(f"{name}/")), parts[0])

    package = ROOT / "myxtts"
    found: dict[str, set[str]] = {}
    for file in package.rglob("*.py"):
        parts = file.relative_to(package).with_suffix("").parts
        if parts[0].startswith("__"):
            continue
        nodes = [node for node in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(node, ast.ImportFrom)]
        modules = [
            [*node.module.split(".")[1:], alias.name]
            for node in nodes
            if node.module and node.module.split(".")[0] == "myxtts"
            for alias in node.names
            if not alias.name.startswith("__")
        ]
        name = folder_of(parts)
        found.setdefault(name, set()).update({folder_of(module) for module in modules} - {name})
    return found


@pytest.mark.parametrize("path", PERSIAN, ids=lambda path: str(path.relative_to(ROOT)))
def test_persian_runs_from_right_to_left_and_code_from_left_to_right(path: Path) -> None:
    document = Document(path)
    directions: list[str] = []
    wrong = []
    for number, line in enumerate(document.text.split("\n"), 1):
        if opened := re.match(r'<div dir="(rtl|ltr)">$', line):
            directions.append(opened[1])
        elif line == "</div>":
            directions.pop()
        elif line.startswith("```") and directions[-1:] != ["ltr"]:
            wrong.append(f'{path.name}:{number}: a code block that is not inside <div dir="ltr">')
        elif re.search("[\u0600-\u06ff]", line) and not directions:
            wrong.append(f'{path.name}:{number}: Persian outside <div dir="rtl">')
    # A sign at the edge of code goes to the wrong side of it where the sentence around it is Persian.
    for match in re.finditer(r"(?<!`)`([^`]+)`(?!`)", document.prose):
        if not (match[1][0].isalnum() and match[1][-1].isalnum()):
            wrong.append(f'{path.name}: `{match[1]}` needs <code dir="ltr">')
    assert not wrong, "\n".join(wrong)
    assert not directions, "a <div> that is not closed"


@pytest.mark.parametrize("name", TRANSLATED)
def test_a_translation_has_the_commands_of_the_original(name: str) -> None:
    def commands(path: Path) -> list[list[str]]:
        complete = [command for command in Document(path).commands() if command.complete]
        return [[word for word in command.words if word.isascii() and " " not in word] for command in complete]

    assert commands(ROOT / "docs" / "fa" / name) == commands(ROOT / "docs" / name)


def run(python: str, command: CommandLine, folder: Path, *more: str) -> None:
    words = [*command.words, *more]
    done = subprocess.run([python, "-m", "myxtts", *words], cwd=folder, capture_output=True, text=True, timeout=3000)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


def complete_commands(name: str) -> list[CommandLine]:
    return [command for command in Document(ROOT / "docs" / name).commands() if command.complete]


def make_voice(folder: Path, clips: int) -> None:
    """What a reader of the documents has: recordings, and pronunciations of names."""
    make_corpus(folder / "data" / "my-voice", clips=clips)
    (folder / "names.tsv").write_text("سعدی\tsaʔdˈiː\n", encoding="utf-8")


@pytest.mark.long
def test_the_commands_of_getting_started_run_as_they_stand(tmp_path: Path, python: str) -> None:
    make_voice(tmp_path, clips=12)
    commands = [one for one in complete_commands("getting-started.md") if one.words[0] in WITHOUT_TENSORFLOW]
    assert {one.words[0] for one in commands} == WITHOUT_TENSORFLOW
    for command in commands:
        run(python, command, tmp_path)


@pytest.mark.soak
def test_getting_started_ends_in_speech(tmp_path: Path) -> None:
    make_voice(tmp_path, clips=60)
    write_audio(tmp_path / "me.wav", samples=3 * RATE, seed=1)
    # The other voices that it mentions may as well be this one.
    for other in ("other-voice", "many-voices"):
        (tmp_path / "runs").mkdir(exist_ok=True)
        (tmp_path / "runs" / other).symlink_to("my-voice")
    for command in complete_commands("getting-started.md"):
        more = ["--max-steps", "4"] if "--resume" in command.words else SHORTER.get(command.words[0], "").split()
        run(sys.executable, command, tmp_path, *more)
    assert (tmp_path / "hello.wav").stat().st_size > 1000
    assert (tmp_path / "me-speaking.wav").stat().st_size > 1000


@pytest.mark.soak
def test_the_commands_of_the_performance_guide_run(tmp_path: Path) -> None:
    make_voice(tmp_path, clips=60)
    for command in complete_commands("performance-guide.md"):
        run(sys.executable, command, tmp_path, *SHORTER.get(command.words[0], "").split())
