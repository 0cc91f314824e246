#!/usr/bin/env bash
# Run molecule with the configuration that all scenarios share.
#   usage: molecule.sh test --scenario-name default
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
# molecule and ansible find each other through PATH; the scenarios lie at the top level on purpose
export PATH=$root/.venv/bin:$PATH MOLECULE_GLOB="molecule/*/molecule.yml" ANSIBLE_HOME=$root/.ansible
export ANSIBLE_COLLECTIONS_PATH=$root/.collections
unset ANSIBLE_CONFIG
exec molecule --base-config molecule/config.yml "$@"
