"""`python -m myxtts` is `myxtts`."""

from myxtts.cli.app import main

main()
