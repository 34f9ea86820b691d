"""A run: a folder, a loop over epochs, and what a person sees of it."""
