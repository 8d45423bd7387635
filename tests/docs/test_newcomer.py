"""The newcomer's path: its lines come from the README, and what the pages say of it is what was measured."""

import json
import os
import runpy
import subprocess
import sys

import pytest

from support.pages import ROOT, name_of
from support.tiny import subprocess_environment

SCRIPT = runpy.run_path(str(ROOT / "benchmarks" / "newcomer.py"), run_name="newcomer")
RECORD = json.loads((ROOT / "results" / "newcomer.json").read_text(encoding="utf-8"))


def test_the_edited_lines_are_the_readme_s_with_another_density():
    code = SCRIPT["edited"](SCRIPT["pasted"]())
    compile(code, "own.py", "exec")
    assert "dim=3" in code and "lambda x: jnp.logaddexp" not in code and code.endswith('sampler.report("mine.html")\n')


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs" / "newcomer.md"], ids=name_of)
def test_pages_show_what_was_measured(page):
    text = page.read_text(encoding="utf-8")
    assert SCRIPT["rewritten"](text, RECORD) == text, "run `python benchmarks/newcomer.py`"
    slower = {**RECORD, "steps": [{"step": SCRIPT["FIVE"], "seconds": 1e5}]}
    assert SCRIPT["rewritten"](text, slower) != text, "the comparison would not notice another measurement"


@pytest.mark.slow
def test_the_path_can_be_walked(tmp_path):
    """In small: a module that Python imports at its start makes the default settings tiny."""
    (tmp_path / "sitecustomize.py").write_text(
        f"import sys\nsys.path.insert(0, {str(ROOT / 'tests')!r})\n"
        "from dataclasses import replace\n"
        "from tempering.methods.registry import METHODS\nfrom support.tiny import tiny_ptsd\n"
        "METHODS['ptsd'] = replace(METHODS['ptsd'], default=lambda **_: tiny_ptsd())\n"
    )
    environment = subprocess_environment(tmp_path / "cache")
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), environment["PYTHONPATH"]])
    command = [sys.executable, str(ROOT / "benchmarks" / "newcomer.py"), "--here"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "figures:" in done.stdout and "marginals.png" in done.stdout
