#!/usr/bin/env bash
# Run ansible-test on the tree as it is now (committed or not).
#   usage: ansible_test.sh sanity|units [more arguments]
# ansible-test wants a real path that ends in ansible_collections/mooncake/pd, and keeps its environments under $HOME:
# both live in .cache, so that nothing is left elsewhere. Each kind of tests has a tree of its own: they may run at once.
set -euo pipefail
what=$1
shift
root=$(cd "$(dirname "$0")/../.." && pwd)
home=$root/.cache/ansible-test
tree=$home/tree-$what/ansible_collections/mooncake/pd
python=$(cd "$root" && .venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
export PATH=$root/.venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

rm -rf "$tree"
mkdir -p "$tree"
git -C "$root" ls-files -z --cached --others --exclude-standard \
    | { cd "$root" && while IFS= read -r -d '' file; do [ -e "$file" ] && printf '%s\0' "$file"; done; } \
    | tar -C "$root" --exclude=.collections --null --files-from=- -cf - | tar -C "$tree" -xf -

pip=$("$root/.venv/bin/python" - <<'PY'
import pathlib, re
import ansible_test._internal as internal
text = (pathlib.Path(internal.__file__).parent / "python_requirements.py").read_text()
print(re.search(r"pip='([0-9.]+)'", text)[1].replace(".", "_"))
PY
)
install -D -m 644 "$root/tests/tools/get_pip.py" "$home/.ansible/test/cache/get_pip_$pip.py"
cd "$tree"
# a repository of its own: seen as a part of this one, it would be ignored as a whole
git init --quiet .
unset ANSIBLE_COLLECTIONS_PATH PYTHONPATH
HOME=$home exec ansible-test "$what" --color no --python "$python" "$@"
