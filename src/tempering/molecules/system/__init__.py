"""A molecular system as data, read from OpenMM, and its energy in JAX."""
