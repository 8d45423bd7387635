"""The account of a run and where it is kept: ledger, records, checkpoints, the run folder, files, the live display."""
