#!/usr/bin/env bash
# Make the installations of the NPU twin that test hosts mount: one for each release that a scenario runs, and a model.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
cache=/var/cache/mooncake-pd/twin
sudo=()
[[ $EUID -eq 0 ]] || sudo=(sudo)

environment() {
  "${sudo[@]}" python3 "$root/tests/sim/npu/environment.py" --vllm-ascend "$1" --mooncake "$2" --generation A3 --path "$cache/$1"
}

"${sudo[@]}" mkdir -p "$cache/model"
"${sudo[@]}" cp "$root/tests/sim/npu/model/config.json" "$cache/model/config.json"
# what makes a test host one with NPUs
"${sudo[@]}" rm -rf "$cache/source"
"${sudo[@]}" cp -r "$root/tests/sim/npu" "$cache/source"
environment 0.11.0 0.3.7.post2
environment 0.23.0 0.3.11.post1
