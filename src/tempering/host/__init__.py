"""Python functions evaluated outside compiled programs: here, in own processes, or by a pool that the user brings.

`work` is all that a worker imports: NumPy and this package's errors, no JAX.
"""
