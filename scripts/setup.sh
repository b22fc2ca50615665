#!/bin/bash
# Make a checkout ready to use: `scripts/setup.sh [python|system|all]` (default: all).
#
#   python   .venv with everything of uv.lock, and the link that makes the checkout a collection
#   system   QEMU and the other programs of the virtual rack and of the report's tests
#
# Quick when there is nothing to do. NEARMETAL_NO_INSTALL=1: install no system package, only say what
# is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

STAMP=.cache/setup.stamp
OLDEST=3.12 # what ansible-core on the controller needs

link_collection() { # the checkout as ansible_collections/nearmetal/rack
    mkdir -p .cache/collections/ansible_collections/nearmetal
    ln -sfn ../../../.. .cache/collections/ansible_collections/nearmetal/rack
}

fingerprint() { # the folder counts: a virtual environment cannot be moved
    { pwd -P; cat uv.lock pyproject.toml scripts/setup.sh scripts/hatch_build.py nearmetal/__init__.py; } | sha256sum
}

find_uv() { # a uv on PATH, or our own
    local found
    if found=$(command -v uv) && "$found" --version >/dev/null 2>&1; then
        UV=$found
    elif [ -x .cache/uv-venv/bin/uv ]; then
        UV=$PWD/.cache/uv-venv/bin/uv
    else
        install_uv
        UV=$PWD/.cache/uv-venv/bin/uv
    fi
}

install_uv() {
    local python
    python=$(any_python_with_venv) || {
        scripts/system-packages.sh python
        python=$(any_python_with_venv) || die "no python3 that can make a virtual environment (python3-venv)"
    }
    say "installing uv into .cache/uv-venv (it is not on PATH)"
    rm -rf .cache/uv-venv
    "$python" -m venv .cache/uv-venv
    .cache/uv-venv/bin/python -m pip install --quiet --disable-pip-version-check uv ||
        die "could not install uv with pip: see the message above (network, proxy, index?)," \
            "or install uv yourself and put it on PATH"
}

any_python_with_venv() { # any Python 3 that can make a virtual environment with pip in it
    local python
    while read -r python; do
        "$python" -c 'import ensurepip, venv' 2>/dev/null && { echo "$python"; return; }
    done < <(pythons)
    return 1
}

pythons() { # interpreters on this machine, the better tested ones first
    local minor
    for minor in 13 12 14; do
        # Not through a pyenv shim: it is there for every version, and fails for all but the chosen ones.
        printf '%s\n' "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3."$minor".*/bin/python3."$minor" \
            "/usr/local/bin/python3.$minor" "/usr/bin/python3.$minor"
    done | while read -r path; do [ -x "$path" ] && echo "$path"; done || true
    command -v python3 || true
    [ -x /usr/bin/python3 ] && echo /usr/bin/python3
}

new_enough() { "$1" -c "import sys; sys.exit(not (3, ${OLDEST#3.}) <= sys.version_info < (3, 15))" 2>/dev/null; }

find_python() { # one for the environment: of this machine, or uv's own build
    local python
    while read -r python; do
        new_enough "$python" && { PYTHON=$python; return; }
    done < <(pythons)
    say "no Python >= $OLDEST on this machine: asking uv for its own build of one"
    "$UV" python install --quiet 3.13 &&
        PYTHON=$("$UV" python find --managed-python 3.13) && return
    die "Python >= $OLDEST is missing and uv could not download one." \
        "Install python3.12, 3.13 or 3.14 (distribution package, or pyenv), then run this again."
}

setup_python() {
    local now
    now=$(fingerprint)
    link_collection
    [ -x .venv/bin/nearmetal ] && [ "$(cat $STAMP 2>/dev/null)" = "$now" ] && return
    find_uv
    find_python
    say "Python environment .venv: $("$PYTHON" --version), packages of uv.lock"
    UV_PYTHON_DOWNLOADS=never VIRTUAL_ENV='' "$UV" sync --quiet --frozen --python "$PYTHON" ||
        die "uv could not install the packages of uv.lock: see the message above"
    ln -sfn "$UV" .cache/uv
    echo "$now" >$STAMP
}

setup_browser() { # where the distribution has none as a package
    local name
    for name in .venv/bin/chromium chromium google-chrome google-chrome-stable; do
        command -v "$name" >/dev/null && return
    done
    [ "${NEARMETAL_NO_INSTALL:-}" != 1 ] || die "no Chromium on this machine: the report's tests need one"
    say "no Chromium as a package of this system: Playwright brings one (and, with apt, the libraries for it)"
    .venv/bin/playwright install --with-deps chromium || die "Playwright could not: see the message above"
    ln -sfn "$(.venv/bin/python -c 'from playwright.sync_api import sync_playwright as start
with start() as play: print(play.chromium.executable_path)')" .venv/bin/chromium
}

case ${1:-all} in
python) setup_python ;;
system) scripts/system-packages.sh rack browser ;;
all)
    needed=(rack browser)
    uv --version >/dev/null 2>&1 || [ -x .cache/uv-venv/bin/uv ] || any_python_with_venv >/dev/null || needed+=(python)
    scripts/system-packages.sh "${needed[@]}"
    setup_python
    setup_browser
    ;;
*) die "usage: scripts/setup.sh [python|system|all]" ;;
esac
