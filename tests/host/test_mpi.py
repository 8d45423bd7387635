"""Points over MPI: `mpiexec -n 3 python -m mpi4py.futures`, two workers. A rank that dies takes the job with it."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

from support.host_functions import BAD, POINTS, Noted, density
from support.tiny import SOURCE
from tempering.runs.points import read_points

LACKING = [
    *([] if shutil.which("mpiexec") else ["mpiexec (Debian: openmpi-bin)"]),
    *([] if importlib.util.find_spec("mpi4py") else ["mpi4py"]),
]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(LACKING), reason=f"not installed: {', '.join(LACKING)}"),
]
RIGHT = np.asarray([density(x) for x in POINTS], np.float32)

SCRIPT = """
import json, sys
from mpi4py.futures import MPIPoolExecutor
from support.host_functions import POINTS, Noted
from tempering.adapters.black_box import BlackBox

if __name__ == "__main__":
    folder, trouble = sys.argv[1:]
    with MPIPoolExecutor() as pool:
        box = BlackBox(Noted(folder, trouble, seconds=0.02), 2, pool=pool, store=folder, chunk_size=1)
        values = box.values(POINTS)
        print(json.dumps({"values": values.tolist(), "workers": box.num_workers, "replayed": box.use.replayed}))
        box.close()
"""


def run(folder, trouble):
    script = folder / "script.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": f"{SOURCE}{os.pathsep}{SOURCE.parent / 'tests'}"}
    # For containers, where processes run as root and share few cores.
    environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    environment |= {"OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}
    command = ["mpiexec", "-n", "3", sys.executable, "-m", "mpi4py.futures", script, folder, trouble]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def answer(done):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("trouble", ["none", "slow"])
def test_ranks_give_the_same_numbers(trouble, tmp_path):
    found = answer(run(tmp_path, trouble))
    np.testing.assert_array_equal(np.asarray(found["values"], np.float32), RIGHT)
    stored = read_points(tmp_path).records
    assert found["workers"] == 2 and len(np.unique(stored["worker"])) == 2
    assert Counter(Noted(tmp_path).calls()) == Counter(x.tobytes() for x in POINTS)
    if trouble == "slow":
        assert np.array_equal(stored["x"][-1], POINTS[BAD]), "nobody waited for it"


def test_a_rank_that_is_killed_ends_the_job_and_the_next_one_pays_only_for_what_is_missing(tmp_path):
    assert run(tmp_path, "kills").returncode != 0
    before = len(read_points(tmp_path).records)
    assert 0 < before < len(POINTS)
    found = answer(run(tmp_path, "kills"))  # what killed it has happened, and does not happen again
    np.testing.assert_array_equal(np.asarray(found["values"], np.float32), RIGHT)
    assert found["replayed"] == before
    calls = Counter(Noted(tmp_path).calls())
    assert sum(num > 1 for num in calls.values()) <= 4 and max(calls.values()) <= 2
