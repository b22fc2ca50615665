#!/bin/bash
# Install the system packages of the named sets that are missing: `system-packages.sh rack browser`.
# Says which and why first. Where it may not install (no root, no sudo, not Debian or Ubuntu,
# NEARMETAL_NO_INSTALL=1) it says the exact command and fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh
PATH=$PATH:/usr/sbin:/sbin

LOG=.cache/apt.log
OLDEST_QEMU=8 # the igb network card, with SR-IOV, is in QEMU since 8.0

# set | package | program or file that shows it is there | why
packages() {
    cat <<'T'
python|python3-venv|-|a virtual environment for uv, which installs everything else in Python
rack|qemu-system-x86|-|the nodes of the virtual rack (8.0 or newer)
rack|qemu-utils|qemu-img|disks and snapshots of the nodes
rack|mmdebstrap|mmdebstrap|the operating system image of the nodes
rack|gdisk|sgdisk|the image's partitions
rack|mtools|mcopy|the image's EFI partition
rack|e2fsprogs|mke2fs|the image's root file system
user|uidmap|newuidmap|building the image without being root
rack|openssh-client|ssh|how Ansible reaches the nodes
rack|cpio|cpio|checking the guests' initramfs in the tests
rack|procps|pgrep|looking for processes that were left over
rack|debian-archive-keyring|/usr/share/keyrings/debian-archive-keyring.gpg|the packages in the image are Debian's
browser|chromium|-|looking at the HTML report in its tests
browser|fonts-dejavu-core|/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf|letters in that browser
T
}

release() { (
    # shellcheck disable=SC1091
    . /etc/os-release 2>/dev/null && echo "${ID:-unknown} ${VERSION_ID:-}"
); }

qemu_new_enough() {
    local version
    version=$(qemu-system-x86_64 --version 2>/dev/null | sed -nE '1s/.*version ([0-9]+).*/\1/p') || return 1
    [ "${version:-0}" -ge $OLDEST_QEMU ]
}

browser_there() {
    local name
    for name in chromium google-chrome google-chrome-stable; do
        command -v "$name" >/dev/null && return 0
    done
    return 1
}

there() { # package, proof
    case $1 in
    python3-venv) python3 -c 'import ensurepip, venv' 2>/dev/null ;;
    qemu-system-x86) qemu_new_enough ;;
    chromium) browser_there ;;
    *) case $2 in
        /*) [ -e "$2" ] ;;
        *) command -v "$2" >/dev/null ;;
        esac ;;
    esac
}

missing() { # sets: lines "package|why"
    local set package proof why
    while IFS='|' read -r set package proof why; do
        [ "$set" != user ] || { [ "$(id -u)" != 0 ] && set=rack; } || continue
        case " $* " in *" $set "*) ;; *) continue ;; esac
        # Ubuntu has Chromium as a snap only: setup.sh lets Playwright bring one.
        case "$package $(release)" in "chromium ubuntu"*) continue ;; esac
        there "$package" "$proof" || echo "$package|$why"
    done < <(packages)
}

# --- Debian 12: its own QEMU is 7.2, a newer one is in bookworm-backports -------------------------

has_suite() { # a source with this suite is configured
    grep -rqsE "^(Suites:.*|deb .*)[[:space:]]$1([[:space:]]|$)" /etc/apt/sources.list /etc/apt/sources.list.d/
}

debian_mirrors() { # lines "URI|keyring": where this machine takes Debian 12 from
    local file
    for file in /etc/apt/sources.list.d/*.sources; do
        [ -e "$file" ] || continue
        awk -v RS= '/(^|\n)Suites:[^\n]*[ \t]bookworm([ \t\n]|$)/ && !/(^|\n)Enabled:[ \t]*no/ {print $0 "\n"}' "$file" |
            awk '/^URIs:/ {uri = $2} /^Signed-By:/ {key = $2} /^$/ {if (uri) print uri "|" key; uri = key = ""}'
    done
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [ -e "$file" ] || continue
        sed -nE 's/^deb[[:space:]]+(\[([^]]*)\][[:space:]]+)?([^[:space:]]+)[[:space:]]+bookworm[[:space:]].*/\3|\2/p' "$file" |
            sed -E 's/\|.*signed-by=([^] ]+).*/|\1/; t; s/\|.*/|/'
    done
}

add_backports() {
    local mirror uri key
    has_suite bookworm-backports && return
    mirror=$(debian_mirrors | sed -n 1p)
    [ -n "$mirror" ] || die "Debian 12's QEMU is too old, and no apt source for bookworm was found" \
        "from which to derive one for bookworm-backports: add it and run this again."
    uri=${mirror%%|*} key=${mirror#*|}
    say "adding bookworm-backports as an apt source (used for QEMU only; its priority is below that of Debian 12)"
    {
        printf 'Types: deb\nURIs: %s\nSuites: bookworm-backports\nComponents: main\n' "$uri"
        printf 'Signed-By: %s\n' "${key:-/usr/share/keyrings/debian-archive-keyring.gpg}"
    } | $SUDO tee /etc/apt/sources.list.d/nearmetal-backports.sources >/dev/null
}

# --- may we, and how ------------------------------------------------------------------------------

may_install() { # sets SUDO
    SUDO=
    [ "${NEARMETAL_NO_INSTALL:-}" != 1 ] && command -v apt-get >/dev/null || return 1
    [ "$(id -u)" = 0 ] && return
    command -v sudo >/dev/null || return 1
    SUDO=sudo
    sudo -n true 2>/dev/null || [ -t 0 ]
}

advice() { # packages
    local get="sudo apt-get install --no-install-recommends" new old
    case $(release) in
    "debian 12")
        new=$(printf '%s\n' "$@" | grep '^qemu-' | tr '\n' ' ') old=$(printf '%s\n' "$@" | grep -v '^qemu-' | tr '\n' ' ')
        echo "  sudo apt-get update${old:+ && $get $old}"
        [ -z "$new" ] || echo "  and, from bookworm-backports among the apt sources: $get -t bookworm-backports $new"
        ;;
    debian* | ubuntu*) echo "  sudo apt-get update && $get $*" ;;
    *) echo "  install what Debian calls: $* (set up by itself: Debian 12, 13, Ubuntu 24.04)" ;;
    esac
}

install() { # packages
    local backports=() plain=() package
    for package in "$@"; do
        case "$(release) $package" in
        "debian 12 qemu-"*) backports+=("$package") ;;
        *) plain+=("$package") ;;
        esac
    done
    [ ${#backports[@]} = 0 ] || add_backports
    $SUDO apt-get update -qq >>"$LOG" 2>&1 || say "apt-get update failed, trying with the lists that are there"
    apt_install "${plain[@]}"
    apt_install -t bookworm-backports "${backports[@]}"
}

apt_install() {
    [ $# -gt 0 ] && [ "${!#}" != bookworm-backports ] || return 0
    $SUDO env DEBIAN_FRONTEND=noninteractive \
        apt-get install -qq -y --no-install-recommends -o Dpkg::Use-Pty=0 "$@" >>"$LOG" 2>&1 && return
    tail -n 20 "$LOG" >&2
    return 1
}

main() {
    local lines names
    lines=$(missing "$@")
    [ -n "$lines" ] || return 0
    mapfile -t names < <(cut -d'|' -f1 <<<"$lines")
    say "system packages needed:"
    sed -E 's/([^|]*)\|(.*)/  \1|\2/' <<<"$lines" | column_pair >&2
    may_install || die "they are not installed: this needs root or sudo, and apt. As an administrator:" \
        "$(advice "${names[@]}")"
    mkdir -p .cache
    : >"$LOG"
    say "installing them with apt-get, log in $LOG"
    install "${names[@]}" || die "apt-get could not install them: see its message above. By hand:" \
        "$(advice "${names[@]}")"
    lines=$(missing "$@")
    [ -z "$lines" ] || die "still missing after the installation: $(cut -d'|' -f1 <<<"$lines" | tr '\n' ' ')"
}

column_pair() { while IFS='|' read -r a b; do printf '  %-24s %s\n' "${a# }" "$b"; done; }

main "$@"
