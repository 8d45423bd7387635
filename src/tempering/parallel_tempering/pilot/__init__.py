"""Before the ladder is known: heating until chains mix, scouts that look further, starts out of walls."""
