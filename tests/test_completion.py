"""Completion scripts: bash's is run in bash, the others are looked at, and checked by their shells where these are."""

import shutil
import subprocess

import pytest

from support.commands import command
from tempering.cli.options import COMMANDS


def _completed(words: list[str], cwd) -> list[str]:
    """What bash offers for the last of these words."""
    _, script, _ = command("completion", "bash")
    line = " ".join(f"'{word}'" for word in words)
    program = (
        f"{script}\nCOMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _tempering; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, cwd=cwd, timeout=30)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout.split()


needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")


@needs_bash
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["tempering", "re"], {"resume", "report", "reference", "reproduce"}),
        (["tempering", "run", "mog40-p"], {"mog40-pt-dm", "mog40-paper", "mog40-paper-pt-dm"}),
        (["tempering", "run", "mod"], {"model.py"}),
        (["tempering", "run", "mog40", "--s"], {"--seed", "--set"}),
        (["tempering", "run", "x.py:f", "--method", "pt"], {"ptsd", "ptsd_paper", "pt_dm"}),
        (["tempering", "sample", "ru"], {"runs"}),
        (["tempering", "completion", ""], {"bash", "zsh", "fish"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bash_offers_what_fits(words, offered, tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "model.py").write_text("")
    assert set(_completed(words, tmp_path)) == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_and_option_is_in_the_script(shell):
    code, script, _ = command("completion", shell)
    assert code == 0
    for name, each in COMMANDS.items():
        assert name in script
        for option in each.options:
            for flag in (word for word in option.names if word.startswith("--")):
                assert (f"-l {flag[2:]}" if shell == "fish" else flag) in script
    if shutil.which(shell):
        done = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, done.stderr
