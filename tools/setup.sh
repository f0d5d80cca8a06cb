#!/usr/bin/env bash
# usage: tools/setup.sh VENV EXTRAS
# Makes the virtual environment VENV, unless a usable one is there, and installs the library in editable form with
# its EXTRAS at the versions of constraints.txt. Set PYTHON to choose the interpreter.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv=$1
extras=$2
supported='import sys; raise SystemExit(not (3, 11) <= sys.version_info[:2] <= (3, 13))'

say() { printf 'setup: %s\n' "$*" >&2; }

# Every interpreter on the search path, in order of preference. A shim of a version manager may exist for a version
# that is not installed, so each is tried before it is believed.
candidates() {
    if [[ -n ${PYTHON:-} ]]; then
        printf '%s\n' "$PYTHON"
        return
    fi
    local name
    for name in python3.13 python3.12 python3.11 python3; do
        type -aP "$name" || true
    done
}

# find_python CODE: the first candidate of a supported version for which CODE runs.
find_python() {
    local candidate
    while read -r candidate; do
        if "$candidate" -c "$supported" >/dev/null 2>&1 && "$candidate" -c "$1" >/dev/null 2>&1; then
            printf '%s\n' "$candidate"
            return
        fi
    done < <(candidates)
    return 1
}

# Debian splits venv off: without python3-venv there is no ensurepip, and `python3 -m venv` fails half-way.
install_venv_package() {
    local version
    version=$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    if ! command -v apt-get >/dev/null || [[ $(id -u) -ne 0 ]]; then
        say "Python $version ($1) cannot make virtual environments: its ensurepip module is missing."
        say "On Debian and Ubuntu run as root: apt-get install python$version-venv, and then make setup again."
        exit 1
    fi
    say "installing python$version-venv with apt-get"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "python$version-venv" >/dev/null
}

if ! "$venv/bin/python" -c "$supported; import pip" >/dev/null 2>&1; then
    if ! python=$(find_python 'import ensurepip, venv'); then
        if ! python=$(find_python 'pass'); then
            say "no Python 3.11, 3.12 or 3.13 found${PYTHON:+ at PYTHON=$PYTHON}."
            say "Install one (Debian, Ubuntu: apt-get install python3 python3-venv), or name it: make setup PYTHON=..."
            exit 1
        fi
        install_venv_package "$python"
    fi
    say "making $venv with $("$python" --version)"
    rm -rf "$venv"
    "$python" -m venv "$venv"
fi

say "installing Ergonet and the pinned packages of [$extras]"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
    --editable ".[$extras]"
say "ready: $venv/bin/ergonet"
