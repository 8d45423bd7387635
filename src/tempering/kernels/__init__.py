"""HOW one chain moves at a fixed beta. Consumes a target and an untempered state; produces the next state."""

from tempering.kernels.base import ChainState, Kernel, KernelInfo, init
from tempering.kernels.hmc import HMC
from tempering.kernels.mala import MALA
from tempering.kernels.step_size import StepSizes

__all__ = ["HMC", "MALA", "ChainState", "Kernel", "KernelInfo", "StepSizes", "init", "make_kernel"]


def make_kernel(name: str, num_leapfrog: int) -> Kernel:
    """The kernel of a setting's name."""
    # A property stands in for the abstract field, which the type checker takes for an argument.
    hmc = HMC(num_leapfrog=num_leapfrog)  # pyright: ignore[reportCallIssue]
    return {"mala": MALA(), "hmc": hmc}[name]
