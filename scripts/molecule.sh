#!/bin/bash
# Molecule scenarios on the virtual rack: `scripts/molecule.sh [SCENARIO...]`, all by default.
#
# Starts a rack and stops it again; or works on one that is up: NEARMETAL_INVENTORY names its inventory,
# NEARMETAL_RACK its name. Its node1 is reset to its first snapshot before, between and after the scenarios; node2
# stands still meanwhile, so that it takes no processor from node1.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH=$PWD/.venv/bin:$PATH
export ANSIBLE_COLLECTIONS_PATH=$PWD/.cache/collections
export NEARMETAL_RACK=${NEARMETAL_RACK:-test}

hosts_of_rack() { # a copy without the group_vars beside it: each scenario brings its own intent
    local from
    from=$(nearmetal lab status --name "$NEARMETAL_RACK" --json |
        python -c 'import json, sys; print(json.load(sys.stdin)["inventory"])')
    [ ! -d "$from" ] || from=$from/hosts.yml
    mkdir -p .cache/test/molecule
    cp "$from" .cache/test/molecule/hosts.yml
    echo "$PWD/.cache/test/molecule/hosts.yml"
}

node2() { # node2 STOP, node2 CONT
    local pid
    pid=$(nearmetal lab status --name "$NEARMETAL_RACK" --json |
        python -c 'import json, sys; print(*(n["pid"] or "" for n in json.load(sys.stdin)["nodes"] if n["name"] == "node2"))')
    [ -z "$pid" ] || kill "-$1" "$pid"
}

if [ -z "${NEARMETAL_INVENTORY:-}" ]; then
    export NEARMETAL_STATE_DIR=${NEARMETAL_RACK_STATE:-$PWD/.cache/test/rack}
    trap 'node2 CONT; nearmetal lab down --name "$NEARMETAL_RACK"' EXIT
    nearmetal lab up --name "$NEARMETAL_RACK"
    NEARMETAL_INVENTORY=$(hosts_of_rack)
    export NEARMETAL_INVENTORY
fi
[ -n "$(trap -p EXIT)" ] || trap 'node2 CONT' EXIT
nearmetal lab reset --name "$NEARMETAL_RACK" node1
node2 STOP

scenarios=("$@")
[ $# -gt 0 ] || for file in molecule/*/molecule.yml; do
    name=${file%/molecule.yml}
    scenarios+=("${name#molecule/}")
done

failed=()
for scenario in "${scenarios[@]}"; do
    echo "molecule: $scenario"
    molecule -c molecule/config.yml test -s "$scenario" </dev/null || failed+=("$scenario")
done
[ ${#failed[@]} = 0 ] || { echo "molecule: failed: ${failed[*]}" >&2; exit 1; }
echo "molecule: ${#scenarios[@]} scenarios passed"
