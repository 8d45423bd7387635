"""The notebooks' runner does what Jupyter would, and the pages that it wrote show the notebooks as they are now."""

import runpy

import pytest

from support.pages import ROOT

RUNNER = runpy.run_path(str(ROOT / "examples" / "notebooks.py"), run_name="notebooks")
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.py"))
PAGES = ROOT / "docs" / "examples"

SMALL = '''"""A notebook."""

# %% [markdown]
# # Title
#
# Some text.

# %%
number = 20
print("printed")
number + 1

# %%
import matplotlib.pyplot as plt

plt.figure(num="a picture")
plt.plot([0, number])
'''


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_page_shows_its_notebook(notebook):
    cells = RUNNER["cells_of"](notebook.read_text(encoding="utf-8"))
    page = (PAGES / f"{notebook.stem}.md").read_text(encoding="utf-8")
    advice = f"run `make notebooks NAMES={notebook.stem}`"
    assert RUNNER["code_of_page"](page) == [cell.source for cell in cells if not cell.is_text], advice
    assert all(cell.source in page for cell in cells if cell.is_text), advice
    assert "```text" in page and f"]({notebook.stem}-1.png)" in page


def test_every_page_has_a_notebook():
    assert {page.stem for page in PAGES.glob("*.md")} == {notebook.stem for notebook in NOTEBOOKS} | {"index"}


def test_cells_are_executed_as_in_a_notebook():
    cells = RUNNER["cells_of"](SMALL)
    assert [cell.is_text for cell in cells] == [True, False, False]
    figures = []
    results = RUNNER["execute"](cells, lambda figure: figures.append(figure) or f"![{figure.get_label()}](1.png)")
    assert results == ["", "```text\nprinted\n21\n```", "![a picture](1.png)"] and len(figures) == 1
    page = RUNNER["page_of"](cells, results, "The end.")
    assert page.startswith("# Title\n\nSome text.\n\n```python\nnumber = 20\n") and page.endswith("The end.\n")
    assert RUNNER["code_of_page"](page) == [cell.source for cell in cells if not cell.is_text]


def test_a_cell_that_fails_ends_the_run():
    with pytest.raises(ZeroDivisionError):
        RUNNER["execute"](RUNNER["cells_of"]("# %%\n1 / 0\n"), lambda figure: "")


def test_an_unknown_notebook_is_refused_by_name(capsys):
    with pytest.raises(SystemExit):
        RUNNER["main"](["mog41"])
    assert "there is no notebook mog41; there are" in capsys.readouterr().err
