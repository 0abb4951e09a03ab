"""`python -m zoo` (and so `torchrun -m zoo`) is the command line."""

from zoo.app.main import main

main()
