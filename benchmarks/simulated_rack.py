"""The simulated rack from factory state to its intent, and once more: `benchmarks/simulated_rack.py [--hosts 32] [--json]`.

Controller and all hosts share this machine's processors; the model's work is part of what is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
INVENTORY = TOP / "inventories" / "simulated_rack"


def run(env: dict[str, str], *words: str) -> tuple[float, float, str]:
    """(wall, CPU) seconds of a command that must end well, and what it printed."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    argv = [sys.executable, "-m", "nearmetal", *words]
    done = subprocess.run(argv, cwd=TOP, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def main() -> None:
    """Print the times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=32, help="how many of the inventory's 32 hosts")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    names = [f"sim-{rack}{n:02d}" for n in range(1, 17) for rack in "ab"][: args.hosts]
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, NEARMETAL_STATE_DIR=f"{folder}/state", NEARMETAL_SIM_DIR=f"{folder}/sim", PYTHONPATH=str(TOP))
        run(env, "sim", "reset", *names)
        apply = ("apply", "-i", str(INVENTORY), "-l", ",".join(names), "--yes")
        wall, cpu, _text = run(env, *apply)
        again, cpu_again, text = run(env, *apply)
    if "0 modules run" not in text:
        raise SystemExit(f"the second apply was no no-op:\n{text}")
    found = {"hosts": len(names), "apply_s": round(wall, 1), "apply_cpu_s": round(cpu, 1), "again_s": round(again, 1),
             "again_cpu_s": round(cpu_again, 1)}  # fmt: skip
    print(json.dumps(found) if args.json else "\n".join(f"{key:<14}{value}" for key, value in found.items()))


if __name__ == "__main__":
    main()
