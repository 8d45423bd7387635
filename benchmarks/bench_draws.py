"""What plain draws cost once a sampler is there: the first thousand, any other number, a million.

    python benchmarks/bench_draws.py --out results/draws-cpu.json

Draws of the network of a default fit, in 2 and in 8 dimensions. The network is not trained: the time of a draw does
not depend on its weights. `first` has the seconds of 1,000 draws in a new process, compiling included; `again` the
same draws once more. `programs` counts what is compiled for six other numbers of draws. `many` has the seconds of a
large set, and the memory that it takes beside the draws themselves. `chunks` has the seconds of 8,000 draws by how
many are integrated at once.
"""

import resource
import sys
import time
from collections.abc import Callable
from dataclasses import replace

import jax
import jax.monitoring
import jax.numpy as jnp
from measure import finish, parser

from tempering.diffusion import Denoiser, DiffusionModel, NoiseLevels, Prior
from tempering.methods.learn import new_networks
from tempering.settings import PTSDSettings, Sampling
from tempering.settings.defaults import resolved

OTHERS = (700, 999, 1000, 513, 2_500, 7_777)
CHUNKS = (250, 500, 1_000, 2_000, 4_000, 8_000)
COMPILED = "/jax/core/compile/backend_compile_duration"


def model_of(dim: int) -> tuple[DiffusionModel, Sampling]:
    """An untrained model of default size, and the settings of its draws."""
    settings = resolved(PTSDSettings(), dim)
    assert settings.network is not None and settings.sampling is not None
    (network,) = new_networks(jax.random.key(0), dim, settings.network, 1)
    scale = jnp.full(dim, 5.0)
    denoiser = Denoiser(network, jnp.zeros(dim), scale, jnp.zeros(()))  # pyright: ignore[reportArgumentType]
    levels = NoiseLevels(jnp.asarray(0.02), jnp.asarray(20.0))
    return DiffusionModel(denoiser, Prior.diagonal(jnp.zeros(dim), jnp.full(dim, 20.0)), levels), settings.sampling.raw


def seconds_of(work: Callable[[], object]) -> float:
    """Wall time of one call, to the end of its result."""
    begin = time.perf_counter()
    jax.block_until_ready(work())
    return time.perf_counter() - begin


def row_of(dim: int, many: int, chunks: tuple[int, ...]) -> dict:
    """All figures of one dimension."""
    compiled: list[str] = []

    def note(event: str, duration_secs: float, **_: object) -> None:
        del duration_secs
        if event == COMPILED:
            compiled.append(event)

    jax.monitoring.register_event_duration_secs_listener(note)
    model, sampling = model_of(dim)

    def draw(num: int, sampling: Sampling = sampling):
        return model.draw(jax.random.key(num), num, sampling, with_density=False)

    row: dict = {"solver": sampling.solver, "num_steps": sampling.num_steps}
    row |= {"first": seconds_of(lambda: draw(1_000)), "again": seconds_of(lambda: draw(1_000))}
    draw(2_001)  # the program of a whole chunk
    compiled.clear()
    row["seconds_of_others"] = {str(num): seconds_of(lambda num=num: draw(num)) for num in OTHERS}
    row["programs"] = len(compiled)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    row["many"] = {"num": many, "seconds": seconds_of(lambda: draw(many))}
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    row["many"] |= {"microseconds_each": 1e6 * row["many"]["seconds"] / many, "mb_of_draws": 4e-6 * many * dim}
    row["many"]["mb_more"] = (after - before) / 1024.0
    row["chunks"] = {}
    for size in chunks:
        own = replace(sampling, chunk_size=size)
        draw(8_000, own)
        row["chunks"][str(size)] = seconds_of(lambda own=own: draw(8_000, own))
    return row


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--many", type=int, default=1_000_000, help="draws of the large set")
    given = options.parse_args()
    many = 20_000 if given.quick else given.many
    figures = {}
    for dim in (2, 8):
        figures[f"{dim} dimensions"] = row_of(dim, many, (2_000,) if given.quick else CHUNKS)
        print(dim, figures[f"{dim} dimensions"], file=sys.stderr, flush=True)
    finish(given, figures)


if __name__ == "__main__":
    main()
