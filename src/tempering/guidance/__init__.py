"""Denoisers at hotter levels to a denoiser at the next colder one, and the choice between the ways to it."""
