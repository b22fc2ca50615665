#!/usr/bin/env bash
# The main job, end to end, on a virtual rack of two nodes. Leaves report.html; nothing is left running.
set -euo pipefail
cd "$(dirname "$0")/.."
nm=(.venv/bin/nearmetal)
inventory=inventories/lab
started=$SECONDS

say() { printf '\n\033[1m== %s\033[0m  (%d:%02d)\n' "$*" $(((SECONDS - started) / 60)) $(((SECONDS - started) % 60)); }
run() {
  printf '$ nearmetal %s\n' "$*"
  "${nm[@]}" "$@"
}
# A command that must end with a given exit code: 2 means "changes are pending" and is what a plan should say here.
expect() {
  local code=$1 got=0
  shift
  run "$@" || got=$?
  if [ "$got" -ne "$code" ]; then
    echo "demo: 'nearmetal $*' ended with $got instead of $code" >&2
    exit 1
  fi
}
trap '"${nm[@]}" lab down >/dev/null || true' EXIT

say "A rack of two virtual servers, as they leave the factory"
run lab up
run lab reset

say "Inspect: what is there"
run inspect node1 node2 -i "$inventory"

say "Audit one of them against the preset for AI storage VMs"
run audit node1 -i "$inventory"

say "Plan: what would change, why, and how disruptive it is"
expect 0 validate -i "$inventory"
expect 2 plan -i "$inventory"

say "Apply: one reboot per node, then everything is read back"
expect 0 apply -i "$inventory" --yes

say "Apply again: a converged rack costs one probe per node"
expect 0 apply -i "$inventory" --yes
expect 0 drift -i "$inventory"

say "Benchmark: bare metal against VMs, placement proved thread by thread"
run bench run -i "$inventory"

say "Report"
run bench report --out report.html
echo "Open $(pwd)/report.html"
say "Done"
