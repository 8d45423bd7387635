"""THE PAPER: the methods, one file each, and the stages that they share."""
