# Sourced by the other scripts: how they speak.
# shellcheck shell=bash

say() { printf 'setup: %s\n' "$*" >&2; }

die() { # one line each
    printf 'setup: %s\n' "$@" >&2
    exit 1
}
