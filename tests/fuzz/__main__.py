"""Attack everything that reads bytes: a server with hostile clients, and all parsers with damaged files.

    python -m tests.fuzz --seconds 600
    python -m tests.fuzz --only tar npy --seconds 60 --seed 17
    python -m tests.fuzz --only tar --seed 4711 --cases 1

The server gets half of the time, and the parsers share the other half. What happens depends on the seed, which is
printed. A file's seed is printed with the fault that it caused; the last line repeats it.
"""

from __future__ import annotations

import argparse
import random
import sys

from tests.fuzz.parsers import PARSERS
from tests.fuzz.search import search

MESSAGES, ALL_PARSERS = "messages", "parsers"


def main() -> int:
    """Run the attacks that the command line describes."""
    names = [MESSAGES, ALL_PARSERS, *PARSERS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", default=600.0, type=float, help="for everything (default: %(default)g)")
    parser.add_argument("--seed", type=int, help="of the first round or file (default: a random one)")
    parser.add_argument("--cases", type=int, help="number of files for each parser (default: as many as possible)")
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="NAME",
        default=[MESSAGES, ALL_PARSERS],
        choices=names,
        help=f"what to attack: {', '.join(names)} (default: everything)",
    )
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(2**31) if options.seed is None else options.seed
    print(f"fuzz: {options.seconds:g} s, seed {seed}", flush=True)
    parsers = list(PARSERS) if ALL_PARSERS in options.only else [name for name in options.only if name != MESSAGES]
    for_messages = options.seconds / (2 if parsers else 1) if MESSAGES in options.only else 0.0
    failed = False
    for name in parsers:
        findings = search(name, seed, (options.seconds - for_messages) / len(parsers), options.cases)
        read, refused = findings.counts["read"], findings.counts["refused"]
        print(f"{read + refused:10,}  {name}: {read:,} were read, {refused:,} refused", flush=True)
        for kind, (at, text) in findings.faults.items():
            failed = True
            print(f"{text}\n{findings.counts[kind]:10,}  {name}: {kind}: --only {name!r} --seed {at} --cases 1")
    if for_messages:
        from tests.fuzz.messages import attack  # its threads must not exist when child processes are forked

        attack(for_messages, seed)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
