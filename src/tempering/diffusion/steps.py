"""One step of the probability flow between two noise levels, by Euler's or by Heun's method."""

from tempering.types import Array, Denoise, Float

__all__ = ["flow_step"]


def flow_step(
    denoise: Denoise,
    x: Float[Array, " dim"],
    sigma: Float[Array, ""],
    sigma_next: Float[Array, ""],
    *,
    is_second_order: bool,
) -> tuple[Float[Array, " dim"], Float[Array, " dim"]]:
    """Carry one point along dx / d sigma = (x - D(x; sigma)) / sigma, up or down.

    Returns:
        The point at `sigma_next`, and D(x; sigma), which the step has computed anyway.
    """
    denoised = denoise(x, sigma)
    here = (x - denoised) / sigma
    moved = x + (sigma_next - sigma) * here
    if not is_second_order:
        return moved, denoised
    there = (moved - denoise(moved, sigma_next)) / sigma_next
    return x + 0.5 * (sigma_next - sigma) * (here + there), denoised
