"""The laboratory beside the library: presets, runs as data, judging, benchmarks' metrics and reports, baselines.

Nothing that `tempering.fit` needs imports it.
"""
