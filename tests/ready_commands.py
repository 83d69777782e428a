"""Makes the commands of the program, so that the processes that are forked afterwards have them."""

from myxtts.cli import app

app.commands()
