"""Our coupling flow against flowjax's, of one size: time to compile, time of a gradient, and what both learn.

    python benchmarks/bench_flows.py --out results/flows.json

flowjax (`pip install flowjax`) is for this measurement alone; without it ours is measured alone.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from measure import commit

from tempering.baselines.flow import Flow
from tempering.targets.densities.gaussian_mixture import mog40

NUM_LAYERS, WIDTH, BATCH, NUM_STEPS, DIM = 15, 80, 128, 4000, 2


def ours() -> tuple[Any, Any, Any]:
    """The flow, its log density of one point, and its draws."""
    flow = Flow(jax.random.key(0), DIM, NUM_LAYERS, WIDTH, 2, True)
    return flow, lambda own, x: own.log_density(x), lambda own, key: own.sample(key, BATCH)


def flowjaxs() -> tuple[Any, Any, Any]:
    """The same of flowjax: affine couplings with permutations."""
    from flowjax.bijections import Affine  # pyright: ignore[reportMissingImports] -- compared with, not needed
    from flowjax.distributions import Normal  # pyright: ignore[reportMissingImports] -- compared with, not needed
    from flowjax.flows import coupling_flow  # pyright: ignore[reportMissingImports] -- compared with, not needed

    flow = coupling_flow(
        jax.random.key(0),
        base_dist=Normal(jnp.zeros(DIM)),
        transformer=Affine(),
        flow_layers=NUM_LAYERS,
        nn_width=WIDTH,
        nn_depth=2,
        invert=True,
    )
    return flow, lambda own, x: own.log_prob(x), lambda own, key: own.sample(key, (BATCH,))


def measure(make: Any) -> dict[str, float]:
    """Seconds to compile and a step, and the loss after training on exact samples of MoG-40 in units of 40."""
    flow, log_prob, draw = make()
    arrays, rest = eqx.partition(flow, eqx.is_inexact_array)
    optimiser = optax.adam(1e-3)
    data = mog40().sample(jax.random.key(1), BATCH * NUM_STEPS).reshape((NUM_STEPS, BATCH, DIM)) / 40.0

    @jax.jit
    def train(arrays: Any, data: Any) -> tuple[Any, Any]:
        def step(carry: Any, x: Any) -> Any:
            arrays, memory = carry
            loss_of = lambda own: -jnp.mean(jax.vmap(lambda row: log_prob(eqx.combine(own, rest), row))(x))  # noqa: E731
            loss, gradient = jax.value_and_grad(loss_of)(arrays)
            changes, memory = optimiser.update(gradient, memory, arrays)
            return (optax.apply_updates(arrays, changes), memory), loss

        return jax.lax.scan(step, (arrays, optimiser.init(arrays)), data)

    sample = jax.jit(lambda arrays, key: draw(eqx.combine(arrays, rest), key))
    seconds: dict[str, float] = {}
    for name, call in (("train", lambda: train(arrays, data)), ("draw", lambda: sample(arrays, jax.random.key(2)))):
        began = time.perf_counter()
        jax.block_until_ready(call())
        first = time.perf_counter() - began
        began = time.perf_counter()
        result = jax.block_until_ready(call())
        seconds |= {
            f"{name}_compile_s": first - (time.perf_counter() - began),
            f"{name}_s": time.perf_counter() - began,
        }
        if name == "train":
            seconds |= {f"loss_{num}": float(jnp.mean(result[1][num - 50 : num])) for num in (400, NUM_STEPS)}
    seconds["ms_per_step"] = 1e3 * seconds.pop("train_s") / NUM_STEPS
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    found = {"ours": measure(ours)}
    try:
        found["flowjax"] = measure(flowjaxs)
    except ImportError as error:
        print(f"flowjax is not there ({error})")
    content = {"command": " ".join(["python", *sys.argv]), "commit": commit(), "device": jax.devices()[0].device_kind}
    content |= {"num_layers": NUM_LAYERS, "width": WIDTH, "batch": BATCH, "num_steps": NUM_STEPS, "flows": found}
    options.out.write_text(json.dumps(content, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
