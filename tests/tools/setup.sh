#!/usr/bin/env bash
# Make .venv from requirements files, with the newest Python that this machine has and ansible-core supports.
#   usage: setup.sh REQUIREMENTS.txt        (PYTHON=/path/to/python picks another one)
set -euo pipefail
requirements=$1
root=$(cd "$(dirname "$0")/../.." && pwd)
venv=$root/.venv

fit() { "$1" -c 'import ensurepip, ssl, sys, venv; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 14))' >/dev/null 2>&1; }

newest_python() {
    local version candidate
    for version in 14 13 12 11 10; do
        # a version manager's shim may answer for a Python that is not active, so each is tried
        for candidate in "$(command -v "python3.$version" || true)" "$HOME"/.pyenv/versions/3."$version".*/bin/python; do
            if [ -x "$candidate" ] && fit "$candidate"; then
                echo "$candidate"
                return
            fi
        done
    done
    return 1
}

install_venv_package() {
    command -v apt-get >/dev/null || return 1
    echo "setup: no Python with venv here, installing the distribution's python3-venv" >&2
    local sudo=()
    [ "$(id -u)" = 0 ] || sudo=(sudo)
    "${sudo[@]}" apt-get -qq update >&2
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends python3-venv >/dev/null
}

stamp=$venv/.$(basename "$requirements").sha256
want=$(cat "$root"/requirements*.txt | sha256sum | cut -d' ' -f1)
if [ -x "$venv/bin/ansible-playbook" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$want" ]; then
    exit 0
fi
python=${PYTHON:-}
if [ -z "$python" ]; then
    python=$(newest_python) || { install_venv_package && python=$(newest_python); } || {
        echo "setup: found no Python 3.10 to 3.14 with venv. Install one (Debian: python3-venv) or name one: PYTHON=/path/to/python make ..." >&2
        exit 1
    }
fi
echo "setup: .venv with $("$python" --version) from $requirements"
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
"$venv/bin/python" -m pip install -qq --disable-pip-version-check -r "$root/$requirements"
echo "$want" > "$stamp"
"$venv/bin/ansible" --version | sed -n 1p
