"""The laboratory beside the library: presets, runs as data, judging, metrics and reports.

Nothing that `tempering.fit` needs imports it.
"""
