"""Does this JAX compute right numbers? Runs before everything else; when it fails, the session stops.

jax-ml/jax#39103: on CPU, jaxlib 0.10.2 silently miscompiles `jit(vmap(row -> reduce(matrix @ row)))` for a matrix with
three columns and more than 32,768 rows of float32; every row past the 32,768th is wrong. NumPy in float64 is the judge.
"""

import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.canary_first import CANARY_FILE, is_alone

NUM_ROWS = 32_769  # one more than the last count at which the defect does not show


def _rows_and_matrix() -> tuple[np.ndarray, np.ndarray]:
    """Rows that differ from one another, and a matrix without symmetry: a wrong row cannot pass for a right one."""
    index = np.arange(NUM_ROWS, dtype=np.float32)
    rows = np.stack([1.0 + index / NUM_ROWS, np.cos(index), -0.5 + np.sin(0.1 * index)], axis=1).astype(np.float32)
    matrix = np.array([[2.0, -1.0, 0.5], [0.25, 1.5, -0.75], [-1.25, 0.5, 3.0]], dtype=np.float32)
    return rows, matrix


def _assert_right(observed: np.ndarray, exact: np.ndarray) -> None:
    error = np.abs(observed.astype(np.float64) - exact) / np.maximum(1.0, np.abs(exact))
    worst = int(np.argmax(error))
    # Three float32 products and sums are good to 1e-6; the defect is of order one.
    assert error[worst] < 1e-5, (
        f"jax {jax.__version__}: {np.sum(error >= 1e-5)} of {NUM_ROWS:,} rows are wrong (jax-ml/jax#39103), "
        f"the worst is {worst:,}: observed {observed[worst]:.6g}, exact {exact[worst]:.6g}, off by {error[worst]:.2%}"
    )


def test_jitted_matrix_vector_product_and_sum_of_squares():
    rows, matrix = _rows_and_matrix()
    observed = jax.jit(jax.vmap(lambda row: jnp.sum((jnp.asarray(matrix) @ row) ** 2)))(rows)
    exact = np.sum((rows.astype(np.float64) @ matrix.astype(np.float64).T) ** 2, axis=1)
    _assert_right(np.asarray(observed), exact)


def test_jitted_index_squared():
    """The very numbers of the report: the last row holds its own index, so the sum of squares is 32,768 squared."""
    rows = jnp.zeros((NUM_ROWS, 3), jnp.float32).at[:, 0].set(jnp.arange(NUM_ROWS, dtype=jnp.float32))
    observed = jax.jit(jax.vmap(lambda row: jnp.sum((jnp.eye(3, dtype=jnp.float32) @ row) ** 2)))(rows)
    _assert_right(np.asarray(observed), np.arange(NUM_ROWS, dtype=np.float64) ** 2)


@pytest.mark.parametrize("reduce_fn", ["sum", "max"])
def test_jitted_matrix_vector_product_and_bare_reduction(reduce_fn):
    """The same defect without the square, in 0.9.2 to 0.10.1 as well: a reduction of `matrix @ row` itself.

    Right because of `tempering._compat`, which conftest.py applies as `import tempering` does.
    """
    rows, matrix = _rows_and_matrix()
    observed = jax.jit(jax.vmap(lambda row: getattr(jnp, reduce_fn)(jnp.asarray(matrix) @ row)))(rows)
    exact = getattr(np, reduce_fn)(rows.astype(np.float64) @ matrix.astype(np.float64).T, axis=1)
    _assert_right(np.asarray(observed), exact)


BARE_REDUCTION = """
import sys
if "guarded" in sys.argv:
    import tempering
import jax, jax.numpy as jnp, numpy as np
rows = np.random.default_rng(0).normal(size=(40_000, 3)).astype(np.float32)
matrix = np.random.default_rng(1).normal(size=(3, 3)).astype(np.float32)
observed = np.asarray(jax.jit(jax.vmap(lambda row: jnp.sum(jnp.asarray(matrix) @ row)))(rows))
print(int(np.sum(np.abs(observed - (rows.astype(float) @ matrix.T.astype(float)).sum(axis=1)) > 1e-3)))
"""


def _num_wrong_rows(*arguments: str) -> int:
    keep = ("PATH", "HOME", "JAX_PLATFORMS")
    environment = {name: os.environ[name] for name in keep if name in os.environ}
    environment["PYTHONPATH"] = str(Path(__file__).parent.parent / "src")
    command = [sys.executable, "-c", BARE_REDUCTION, *arguments]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    return int(run.stdout)


def test_importing_the_package_makes_a_fresh_process_right():
    assert _num_wrong_rows("guarded") == 0


@pytest.mark.skipif(jax.__version_info__ >= (0, 11), reason="right without help")
def test_without_the_guard_a_fresh_process_is_wrong():
    """The saboteur: should this start to fail, the guard has nothing left to do on the tested JAX."""
    assert _num_wrong_rows() > 0


def test_a_wrong_row_is_caught():
    exact = np.linspace(1.0, 2.0, NUM_ROWS)
    wrong = exact.astype(np.float32)
    wrong[-1] *= np.float32(0.992)
    with pytest.raises(AssertionError, match=r"1 of 32,769 rows are wrong .*, the worst is 32,768"):
        _assert_right(wrong, exact)


def test_a_dead_canary_stops_the_session(tmp_path):
    (tmp_path / "test_00_canary.py").write_text("def test_canary():\n    assert 1 == 2\n")
    (tmp_path / "test_a.py").write_text("def test_later():\n    open('ran', 'w')\n")
    command = [sys.executable, "-m", "pytest", "-p", "support.canary_first", "-p", "no:cacheprovider", "-c", "none.ini"]
    (tmp_path / "none.ini").write_text("[pytest]\n")
    # `test_a.py` is named first, so that only the plugin can have put the canary before it.
    run = subprocess.run(
        [*command, "test_a.py", "test_00_canary.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(Path(__file__).parent)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode == 1
    assert "no other result can be trusted" in run.stdout
    assert "assert 1 == 2" in run.stdout
    assert not (tmp_path / "ran").exists()


def test_alone_it_judges_programs_as_users_compile_them(pytestconfig):
    """`conftest.py` has the others compiled more quickly."""
    own, other = f"tests/{CANARY_FILE}", "tests/test_api.py"
    assert is_alone([own]) and is_alone([f"{own}::test_index[sum]", own])
    assert not is_alone(["tests"]) and not is_alone([own, other]) and not is_alone([other])
    assert not (jax.config.values["jax_disable_most_optimizations"] and is_alone(pytestconfig.args))
