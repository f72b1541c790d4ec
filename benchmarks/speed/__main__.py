"""Measure everything that the time allows, the most telling first, and write it down as it comes.

python -m benchmarks.speed --json speed.json
python -m benchmarks.speed --json speed.json --budget 240 --part iteration --part rollout
"""

import argparse
import os
from pathlib import Path

# Room on the device for the processes that are started beside this one.
os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.4")

from benchmarks.speed.agenda import AGENDA, Bench


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True, help="where the findings go")
    parser.add_argument("--part", action="append", choices=list(AGENDA), help="only this; may be repeated")
    parser.add_argument("--budget", type=float, default=1e9, help="seconds after which nothing new is begun")
    parser.add_argument("--short", action="store_true", help="the small sizes only")
    parser.add_argument("--hlo", type=Path, help="a folder for the compiled programs' text")
    arguments = parser.parse_args()
    bench = Bench(arguments.json, arguments.budget, arguments.short, arguments.hlo)
    for name in arguments.part or AGENDA:
        bench.run(name)
    bench.finish()


if __name__ == "__main__":
    main()
