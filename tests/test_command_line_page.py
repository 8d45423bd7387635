"""docs/command-line.md: its model is one, its commands are read, and its tables name what there is."""

import re
import shlex
from pathlib import Path

import pytest

from tempering.cli.options import COMMANDS
from tempering.cli.parser import parsed
from tempering.errors import SettingsError
from tempering.lab.own_models import own_config

PAGE = (Path(__file__).parent.parent / "docs" / "command-line.md").read_text()
README = (Path(__file__).parent.parent / "README.md").read_text()


def _lines(text: str) -> list[str]:
    blocks = re.findall(r"^```\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [line.split("#")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith("tempering ")]


@pytest.mark.parametrize("line", [*_lines(PAGE), *_lines(README)])
def test_commands_are_read_as_printed(line):
    assert parsed(shlex.split(line)[1:])


def test_a_misprint_would_be_seen():
    with pytest.raises(SettingsError, match="did you mean --dry-run"):
        parsed(["run", "mog40", "--dryrun"])


def test_the_example_is_a_model(tmp_path, monkeypatch):
    (example,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "line.py").write_text(example)
    monkeypatch.syspath_prepend(tmp_path)
    _, target = own_config(f"{tmp_path / 'line.py'}:log_likelihood", changes=[])
    assert target.dim == 2 and target.reference is not None


def test_every_command_and_option_has_a_word_of_help():
    for command in COMMANDS.values():
        assert command.about.endswith(".") and all(option.how.get("help") for option in command.options)
