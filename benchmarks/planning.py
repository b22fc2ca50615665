"""Deciding only, from states already observed: time and memory over the number of hosts.

python benchmarks/planning.py --hosts 1000 --json
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TOP), str(TOP / ".cache" / "collections"), str(TOP / "tests" / "support")]

import rack  # noqa: E402


def measure(hosts: int) -> dict[str, float]:
    """{hosts, plan_s, per_host_ms, peak_mb}. Every host gets a document of its own, as in a real run."""
    text, intent = json.dumps(rack.factory_state()), rack.intent()
    start = time.perf_counter()
    plans = {f"host{n}": rack.loop.decide(intent, json.loads(text), rack.CAPABILITIES) for n in range(hosts)}
    total = rack.loop.summary(plans)
    seconds = time.perf_counter() - start
    if total["changed_hosts"] != hosts:
        raise SystemExit(f"only {total['changed_hosts']} of {hosts} hosts have steps: the benchmark measures nothing")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"hosts": hosts, "plan_s": round(seconds, 3), "per_host_ms": round(seconds * 1000 / hosts, 3), "peak_mb": round(peak, 1)}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    result = measure(args.hosts)
    words = "{hosts} hosts planned in {plan_s} s, {per_host_ms} ms each, {peak_mb} MB"
    print(json.dumps(result) if args.json else words.format(**result))


if __name__ == "__main__":
    main()
