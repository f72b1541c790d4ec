"""A run in its own process that looks in after every epoch and commits each: for killing.

python interrupted_run.py DIRECTORY
"""

import sys

import tiny_run

from temperflow.app import loop
from temperflow.app.errors import TemperflowError

loop.LOOK_EVERY, loop.COST_SHARE = 0.0, float("inf")
try:
    tiny_run.run(sys.argv[1])
except TemperflowError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_status)
