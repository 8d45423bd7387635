"""Peak memory of drawing many samples: bounded by the chunk and the output, not by what happens inside.

    python benchmarks/bench_memory.py [--quick] [--out results/memory.json]

Every size runs in processes of its own, because the peak of a process never falls: three, of which the median counts,
because the allocator alone makes them differ by tens of MiB. An untrained network and few steps:
neither changes what grows with the number of draws, which is set against the bytes of the output. Where chunks are
joined the output exists twice, and a draw has a key of 8 bytes. `--density` adds the log densities, whose trace needs
more memory inside a chunk. CPU only: on a GPU the peak of the host says little.
"""

import json
import os
import subprocess
import sys

from measure import finish, parser

SIZES, CHUNK, NUM_STEPS = (10_000, 100_000, 1_000_000), 10_000, 4

ONE = """
import json, resource, sys
import jax, jax.numpy as jnp
from tempering.diffusion import Denoiser, DiffusionModel, NoiseLevels, Prior
from tempering.diffusion.networks import make_network
from tempering.settings import Network, Sampling

num, dim, chunk_size, num_steps, with_density = json.loads(sys.argv[1])
network = make_network(jax.random.key(0), dim, Network(width=64, depth=2, coordinate_width=0, is_shared=False))
zeros, ones = jnp.zeros((dim,)), jnp.ones((dim,))
levels = NoiseLevels(*(jnp.asarray(n) for n in (0.01, 10.0)))
model = DiffusionModel(Denoiser(network, zeros, ones, jnp.zeros(())), Prior.diagonal(zeros, 10.0 * ones), levels)
solver = {"solver": "euler", "divergence": "hutchinson", "num_probes": 1}
sampling = Sampling(**solver, num_steps=num_steps, chunk_size=chunk_size)
draws, log_q = jax.block_until_ready(model.draw(jax.random.key(1), num, sampling, with_density=with_density))
unit = 1 if sys.platform == "darwin" else 1024  # Linux counts in kibibytes, macOS in bytes
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
assert draws.shape == (num, dim) and bool(jnp.all(jnp.isfinite(draws)))
print(json.dumps(peak))
"""


def peak(num: int, dim: int, with_density: bool) -> int:
    """Peak resident bytes of a process that draws `num` samples."""
    job = json.dumps([num, dim, CHUNK, NUM_STEPS, with_density])
    found = subprocess.run(
        [sys.executable, "-c", ONE, job],
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(found.stdout)


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--density", action="store_true", help="with log densities")
    options = made.parse_args()
    sizes = SIZES[:2] if options.quick else SIZES
    num_processes = 1 if options.quick else 3
    figures = {}
    print("peak of " + "".join(f"{size:>12,}" for size in sizes) + "   MiB     bytes a further draw   of the output")
    for dim in (2, 32):
        found = {num: sorted(peak(num, dim, options.density) for _ in range(num_processes)) for num in sizes}
        peaks = [values[len(values) // 2] for values in found.values()]
        slope = (peaks[-1] - peaks[0]) / (sizes[-1] - sizes[0])
        output = 4 * (dim + 1)  # float32: a sample and its log density
        figures[f"dim-{dim}"] = {
            "peak_bytes_of_processes": {str(num): values for num, values in found.items()},
            "bytes_a_further_draw": round(slope, 1),
            "output_bytes_a_draw": output,
        }
        print(f"{dim:>4d}-D  " + "".join(f"{size / 2**20:12.0f}" for size in peaks), end="")
        print(f"{slope:30.1f}{output:16d}")
    finish(options, figures, chunk_size=CHUNK, num_steps=NUM_STEPS, with_density=options.density)


if __name__ == "__main__":
    main()
