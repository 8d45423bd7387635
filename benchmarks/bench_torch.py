"""Training step and guided sampling step against the same network in eager PyTorch, in one process.

    python benchmarks/bench_torch.py [--quick] [--out results/torch.json]

The paper's network (five linear layers, width 256) with noise embedding and EDM preconditioning. Training: batch 1,000,
clipped Adam, averaged weights, new noise at every step, in 2 and in 32 dimensions. Sampling: Euler steps of the guided
denoiser with one Hutchinson probe for 10,000 samples in 32 dimensions. Both sides run on the GPU where both see one,
else on the CPU with two threads each. PyTorch is no dependency of the library: where it is not installed, the script
says so and ends. The aim is a ratio of at least 1 on a CPU and 8 on a GPU.

On a CPU that others use, PyTorch's OpenMP threads spin at barriers for a partner that is not running, and a step takes
up to fifty times as long: that says nothing about either library. Take CPU figures on a quiet machine (`--wait`).
`--passive` lets these threads sleep instead: steady under load, but a quarter slower where the machine is quiet, so
that it flatters us.
"""

import importlib.util
import os
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from measure import Meter, Patience, Turns, finish, interleave, parser, quartiles, ratio, show

from tempering.diffusion import (
    Dataset,
    Denoiser,
    LevelData,
    NoiseLevels,
    Prior,
    draw,
    fit_networks,
    method_of,
    sigma_grid,
)
from tempering.diffusion.calibrate import stack
from tempering.diffusion.networks import make_network
from tempering.diffusion.networks.embedding import NUM_FREQUENCIES
from tempering.diffusion.solve import flow
from tempering.guidance.extrapolate import Guided
from tempering.settings import Network, Sampling, Training

NUM_THREADS = 2
NETWORK = Network(kind="mlp", width=256, depth=5, coordinate_width=0, is_shared=False)
SAMPLING = Sampling(solver="euler", divergence="hutchinson", num_probes=1)
SIGMAS = (0.002, 40.0)
GUIDANCE_WEIGHT = 0.5
NUM_DATA, NUM_SAMPLES = 10_000, 10_000


def settle_on_device(is_passive: bool) -> str:
    """The device for both sides. Must come before PyTorch is imported and before JAX has computed anything."""
    if is_passive:
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    import torch  # pyright: ignore[reportMissingImports]

    has_plugin = any(importlib.util.find_spec(f"jax_cuda{version}_plugin") for version in (12, 13))
    if torch.cuda.is_available() and has_plugin and os.environ.get("JAX_PLATFORMS", "") != "cpu":
        os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # else JAX leaves PyTorch no memory
        # XLA multiplies float32 matrices in TF32 unless told otherwise; PyTorch has to be told to.
        torch.set_float32_matmul_precision("high")
        if jax.default_backend() == "gpu":
            return "cuda"
        sys.exit(f"PyTorch sees a GPU and JAX does not ({jax.devices()}); set JAX_PLATFORMS=cpu to compare on the CPU")
    jax.config.update("jax_platforms", "cpu")
    # XLA takes as many threads as the process may use cores.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:NUM_THREADS])
    torch.set_num_threads(NUM_THREADS)
    return "cpu"


def denoiser_of(seed: int, dim: int) -> Denoiser:
    network = make_network(jax.random.key(seed), dim, NETWORK)
    return Denoiser(network, jnp.zeros((dim,)), jnp.full((dim,), 2.0 + seed), jnp.zeros(()))


def as_torch(denoiser: Denoiser, device: str):
    """The same denoiser with the same weights."""
    from eager_torch import EagerDenoiser

    network = denoiser.network
    layers = [(np.asarray(layer.weight).T, np.asarray(layer.bias)) for layer in network.layers]
    frequencies = np.geomspace(0.6, 10.0, NUM_FREQUENCIES, dtype=np.float32)
    return EagerDenoiser(layers, frequencies, np.asarray(denoiser.location), np.asarray(denoiser.sigma_data)).to(device)


def levels_of() -> NoiseLevels:
    least, most = (jnp.asarray(number, jnp.float32) for number in SIGMAS)
    return NoiseLevels(least, most)


def largest_difference(device: str) -> float:
    """Between two guided Euler steps of both sides from the same points with the same probes, over the largest value.

    Points and log densities; in reverse mode points only, because a network's Jacobian is not quite symmetric.
    """
    import torch  # pyright: ignore[reportMissingImports]
    from eager_torch import guided, guided_flow, step_by_jvp, step_by_vjp

    dim, num = 32, 50
    cold, hot = denoiser_of(0, dim), denoiser_of(1, dim)
    denoise = Guided((cold, hot), jnp.asarray([1.0 + GUIDANCE_WEIGHT, -GUIDANCE_WEIGHT]))
    method = method_of(SAMPLING, with_density=True, dim=dim)
    sigmas = jnp.asarray([1.5, 1.2, 1.0])
    x = 3.0 * jax.random.normal(jax.random.key(5), (num, dim))
    keys = jax.random.split(jax.random.key(6), num)
    moved, gain = (np.asarray(v) for v in jax.vmap(lambda key, x: flow(denoise, x, sigmas, key, method))(keys, x))

    def same_probes(index: int, points) -> torch.Tensor:
        one = lambda key: jax.random.rademacher(jax.random.fold_in(key, index), (1, dim), x.dtype)[0]  # noqa: E731
        return torch.tensor(np.asarray(jax.vmap(one)(keys)), device=device)

    theirs = guided(as_torch(cold, device), as_torch(hot, device), GUIDANCE_WEIGHT)
    points, nodes = (torch.tensor(np.asarray(values), device=device) for values in (x, sigmas))
    forward = guided_flow(theirs, points, nodes, step_by_jvp, same_probes)
    reverse = guided_flow(theirs, points, nodes, step_by_vjp, same_probes)
    pairs = ((moved, forward[0]), (gain, forward[1]), (moved, reverse[0]))
    return float(max(np.max(np.abs(mine - other.cpu().numpy())) / np.max(np.abs(mine)) for mine, other in pairs))


def train(dim: int, device: str, block: int, num_turns: int, patience: Patience) -> Turns:
    """Seconds a step of both sides. PyTorch takes its turn whenever our fit reports a block of steps done."""
    import torch  # pyright: ignore[reportMissingImports]
    from eager_torch import EagerTraining

    training = Training(
        num_steps=block * (num_turns + 2),
        batch_size=1000,
        learning_rate=1e-3,
        validation_fraction=0.002,  # the check at a block's end is ours alone to pay
        check_every=block,
        patience=0,
        use_gradients=False,
    )
    position = 2.0 * jax.random.normal(jax.random.key(2), (NUM_DATA, dim))
    denoiser = denoiser_of(0, dim)
    level = LevelData(
        position,
        jnp.zeros_like(position),
        jnp.full((NUM_DATA,), 1.0 / NUM_DATA),
        levels_of(),
        jnp.zeros((dim,)),
        denoiser.location,
        denoiser.sigma_data,
        denoiser.c_temperature,
    )
    data = Dataset(stack(level), jnp.ones((1,)), jnp.ones((1,)))
    other = EagerTraining(
        as_torch(denoiser, device), torch.tensor(np.asarray(position), device=device), SIGMAS, training
    )
    ours, theirs, others, meter, begin = [], [], [], Meter(), time.perf_counter()

    def on_check(step: int, loss: float) -> None:  # the fit has waited for its block in order to tell the loss
        nonlocal begin, meter
        ours.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        other.block(block)
        theirs.append(time.perf_counter() - begin)
        others.append(meter.read())
        patience.wait()
        meter, begin = Meter(), time.perf_counter()

    keys = jax.random.split(jax.random.key(3), 1)
    networks = stack(denoiser.network)
    fit_networks(keys, networks, stack(data), training, num_steps=training.num_steps, on_check=on_check)
    warm = slice(2, None)  # the first two: compilation on our side, allocation on theirs
    seconds = {"ours": np.asarray(ours[warm]) / block, "PyTorch": np.asarray(theirs[warm]) / block}
    return Turns(seconds, np.asarray(others[warm]))


def sample(device: str, num_steps: int, num_turns: int, patience: Patience) -> Turns:
    """Seconds a step of the guided draw on our side and by both modes of PyTorch."""
    import torch  # pyright: ignore[reportMissingImports]
    from eager_torch import guided, guided_draw, step_by_jvp, step_by_vjp

    dim = 32
    cold, hot = denoiser_of(0, dim), denoiser_of(1, dim)
    ours = Guided((cold, hot), jnp.asarray([1.0 + GUIDANCE_WEIGHT, -GUIDANCE_WEIGHT]))
    method, sigmas = method_of(SAMPLING, with_density=True, dim=dim), sigma_grid(levels_of(), num_steps)
    prior = Prior.diagonal(jnp.zeros((dim,)), jnp.full((dim,), SIGMAS[1]))
    key = jax.random.key(4)
    theirs = guided(as_torch(cold, device), as_torch(hot, device), GUIDANCE_WEIGHT)
    nodes = torch.tensor(np.asarray(sigmas), device=device)
    std = torch.full((dim,), SIGMAS[1], device=device)

    def in_torch(step_fn):
        x, log_q = guided_draw(theirs, NUM_SAMPLES, std, nodes, step_fn)
        return float(x.sum() + log_q.sum())  # reading a number waits for everything

    turns = interleave(
        {
            "ours": lambda: jax.block_until_ready(
                draw(key, NUM_SAMPLES, ours, prior, sigmas, method, chunk_size=NUM_SAMPLES)
            ),
            "PyTorch, reverse mode": lambda: in_torch(step_by_vjp),
            "PyTorch, forward mode": lambda: in_torch(step_by_jvp),
        },
        num_turns,
        patience,
        num_warm=1,
    )
    return Turns({name: values / num_steps for name, values in turns.seconds.items()}, turns.others)


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--passive", action="store_true", help="let PyTorch's idle threads sleep: on busy machines")
    options = made.parse_args()
    if importlib.util.find_spec("torch") is None:
        print("PyTorch is not installed here; nothing to compare with. `pip install torch` to run this benchmark.")
        return
    device = settle_on_device(options.passive)
    is_fast = device == "cuda"
    difference = largest_difference(device)
    # TF32 keeps three digits. A larger difference means that the library has changed and `eager_torch.py` has not.
    if difference > (2e-2 if is_fast else 1e-4):
        sys.exit(f"the two sides do not compute the same: largest relative difference {difference:.2e}")
    block, num_turns = (200, 10) if is_fast else (40, 16)
    few, patience = 2 if options.quick else None, Patience(options.wait)
    parts = {f"training step, {dim}-D": train(dim, device, block, few or num_turns, patience) for dim in (2, 32)}
    num_steps, num_turns = (50, 10) if is_fast else (5, 8)
    parts["guided step, 32-D"] = sample(device, num_steps, few or num_turns, patience)
    figures: dict[str, dict] = {"milliseconds": {}, "torch_over_ours": {}}
    for part, turns in parts.items():
        for name, values in turns.seconds.items():
            figures["milliseconds"][f"{part}, {name}"] = quartiles(values * 1e3)
            if name != "ours":
                figures["torch_over_ours"][f"{part}, {name}"] = ratio(values, turns.seconds["ours"], turns.others)
    show(f"one step on {device}", figures["milliseconds"], "milliseconds")
    show("PyTorch over ours", figures["torch_over_ours"], "ratio")
    finish(
        options,
        figures,
        device=device,
        cpu_threads_of_both=None if is_fast else NUM_THREADS,
        is_passive=options.passive,
        steps_a_draw=num_steps,
        steps_a_block=block,
        largest_relative_difference=float(f"{difference:.2g}"),
    )


if __name__ == "__main__":
    main()
