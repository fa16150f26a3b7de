"""Rules for PyTorch's operators, one file per family."""
