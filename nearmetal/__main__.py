"""python -m nearmetal."""

from nearmetal.cli import main

main()
