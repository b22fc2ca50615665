"""What a converged rack costs: `nearmetal drift`, a ping, and the same settings as stock tasks.

python benchmarks/noop.py --hosts 200 --json

Every host is a captured tree on this machine (local connection), so target and controller share its
processors. Times are of whole processes, start included; `drift_cpu_s` is user and system time of the
drift and all its children.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

TOP = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TOP / ".cache" / "collections"), str(TOP / "tests" / "support")]

import rack  # noqa: E402

from nearmetal.runner import FORKS, environment  # noqa: E402

STOCK_HOSTS = 4
STOCK_TASKS = 40


def run(argv: list[str], expect: int = 0) -> tuple[float, float]:
    """(wall, CPU) seconds of a command and its children; SystemExit where it ends otherwise."""
    env = dict(os.environ, **environment(Path(os.devnull)), ANSIBLE_FORKS=str(FORKS), PYTHONPATH=str(TOP))
    env.pop("NEARMETAL_JOURNAL")
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != expect:
        raise SystemExit(f"{' '.join(argv)} ended with {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    if "changed=" in done.stdout and "changed=0" not in done.stdout:
        raise SystemExit(f"{' '.join(argv)} changed something: it measures no no-op")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def inventory(folder: Path, count: int) -> Path:
    """Hosts that share one tree: each is read anew, whatever the others did."""
    tree = folder / "tree"
    if not tree.exists():
        rack.write_converged(tree)
    hosts = {f"host{n:04d}": {} for n in range(count)}
    variables = {"ansible_connection": "local", "nearmetal_root": str(tree), **rack.VARIABLES}
    path = folder / f"hosts-{count}.yml"
    path.write_text(yaml.safe_dump({"all": {"hosts": hosts, "vars": variables}}))
    return path


def ping_playbook(folder: Path) -> Path:
    """One play with one module."""
    path = folder / "ping.yml"
    tasks = [{"name": "Ping", "ansible.builtin.ping": None}]
    path.write_text(yaml.safe_dump([{"name": "Ping", "hosts": "all", "gather_facts": False, "tasks": tasks}]))
    return path


def stock_playbook(folder: Path) -> Path:
    """The settings in the usual way: one ordinary task per setting, on files that are already so."""
    tasks: list[dict[str, object]] = []
    for number, word in enumerate(rack.WORDS):
        line = f'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX {word}"'
        path = folder / "stock" / f"{number:02d}.cfg"
        path.parent.mkdir(exist_ok=True)
        path.write_text(line + "\n")
        tasks.append({"name": f"Set {word}", "ansible.builtin.lineinfile": {"path": str(path), "line": line}})
    for number in range(STOCK_TASKS - len(tasks)):
        path = folder / "stock" / f"pool{number}"
        path.write_text(f"{number}")
        path.chmod(0o644)
        copy = {"dest": str(path), "content": f"{number}", "mode": "0644"}
        tasks.append({"name": f"Set pool {number}", "ansible.builtin.copy": copy})
    playbook = folder / "stock.yml"
    play = {"name": "Stock", "hosts": "all", "gather_facts": False, "tasks": tasks}
    playbook.write_text(yaml.safe_dump([play], width=1000))
    return playbook


def measure(count: int, stock: bool) -> dict[str, float]:
    """The document described in the module's docstring."""
    folder = Path(tempfile.mkdtemp(prefix="nearmetal-noop-"))
    ansible = str(Path(sys.executable).with_name("ansible-playbook"))
    try:
        hosts = str(inventory(folder, count))
        ping_s, _ = run([ansible, "-i", hosts, str(ping_playbook(folder))])
        drift_s, drift_cpu_s = run([sys.executable, "-m", "nearmetal", "drift", "-i", hosts])
        result: dict[str, float] = {"hosts": count, "ping_s": ping_s, "drift_s": drift_s, "drift_cpu_s": drift_cpu_s}
        if stock:
            few = min(count, STOCK_HOSTS)
            playbook = str(stock_playbook(folder))
            stock_s, _ = run([ansible, "-i", str(inventory(folder, few)), playbook])
            result.update(stock_hosts=few, stock_tasks=STOCK_TASKS, stock_s=stock_s)
        return {k: round(v, 3) for k, v in result.items()}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=50)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--no-stock", action="store_true", help="leave the stock tasks out (they take longest)")
    args = parser.parse_args()
    result = measure(args.hosts, not args.no_stock)
    if args.json:
        print(json.dumps(result))
        return
    print(f"{args.hosts} hosts: drift {result['drift_s']} s ({result['drift_cpu_s']} s of CPU), ping {result['ping_s']} s: "
          f"ratio {result['drift_s'] / result['ping_s']:.2f}")  # fmt: skip
    if not args.no_stock:
        ratio = (result["stock_s"] / result["stock_hosts"]) / (result["drift_s"] / args.hosts)
        print(f"{STOCK_TASKS} stock tasks on {result['stock_hosts']} hosts: {result['stock_s']} s; "
              f"{ratio:.0f} times the time per host")  # fmt: skip


if __name__ == "__main__":
    main()
