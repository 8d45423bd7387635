"""The proving ground: densities that others know, with exact truths, and what judges an answer to them."""
