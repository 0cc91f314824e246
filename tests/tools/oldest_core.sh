#!/usr/bin/env bash
# Run what does not need hosts with the oldest ansible-core that this machine's Pythons can run:
# unit tests of the plugins, the inventories, the playbooks' syntax.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
venv=$root/.cache/oldest-core

# oldest first, with the Pythons that it runs on; python3.10 to 3.12 carry 2.17
oldest() {
    local core minor candidate
    for core in 2.17:12:11:10 2.18:13:12:11 2.19:13 2.20:14; do
        for minor in $(tr : ' ' <<< "${core#*:}"); do
            for candidate in "$(command -v "python3.$minor" || true)" "$HOME"/.pyenv/versions/3."$minor".*/bin/python; do
                if [ -x "$candidate" ] && "$candidate" -c 'import ensurepip, venv' >/dev/null 2>&1; then
                    echo "${core%%:*} $candidate"
                    return
                fi
            done
        done
    done
    return 1
}

read -r core python < <(oldest)
if ! "$venv/bin/ansible" --version 2>/dev/null | grep "core $core" >/dev/null; then
    rm -rf "$venv"
    "$python" -m venv "$venv"
    "$venv/bin/python" -m pip install -qq --disable-pip-version-check "ansible-core~=$core.0" pytest hypothesis
fi
"$venv/bin/ansible" --version | sed -n 1p
export PATH=$venv/bin:$PATH ANSIBLE_CONFIG=$root/ansible.cfg PYTHONPATH=$root/.collections
unset ANSIBLE_COLLECTIONS_PATH
# what meets ansible-core; of the pure code, which does not, one test each for the planner and the judge shows that it loads
plugins=tests/unit/plugins
python -m pytest -q --rootdir "$root" $plugins/action $plugins/inventory $plugins/modules \
    $plugins/plugin_utils/test_plan.py $plugins/plugin_utils/preflight/test_rules_host.py \
    tests/unit/policy tests/unit/roles/*.py
for inventory in inventories/*/; do
    ansible-inventory -i "$inventory" --graph > /dev/null
    ansible-playbook site.yml -i "$inventory" --syntax-check > /dev/null
done
echo "inventories and playbooks load with ansible-core $core"
