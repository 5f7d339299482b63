#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tests/scale/nightly.sh EYELET DIST: scaling with other programs. Ray, LiteLLM and kubernetes-validate come from
# PyPI, schemas from npm; InferencePool's is downloaded from its project, or is the file $EY_INFERENCEPOOL_CRD. Last
# line: "N passed, N failed".
set -uo pipefail
eyelet=$(realpath "$1") wheel=$(realpath "$2"/eyelet-*.whl) scale=tests/scale
crd_url=https://raw.githubusercontent.com/kubernetes-sigs/gateway-api-inference-extension/v1.5.0/config/crd/bases/inference.networking.k8s.io_inferencepools.yaml
export PYTHONDONTWRITEBYTECODE=1
unset EYELET_LIBRARY PYTHONPATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

venv() { # venv NAME PACKAGE...: makes a virtual environment with these packages
  python3 -m venv "$work/$1" && "$work/$1/bin/python" -m pip install -q --disable-pip-version-check "${@:2}"
}
part() { # part WHAT COMMAND...: runs a part and adds the "N passed, N failed" of its last line
  local said counts status=0
  said=$(timeout 900 "${@:2}" 2>&1) || status=$?
  echo "== $1"
  echo "$said" | tail -40 | sed '/^[0-9]* passed, [0-9]* failed$/d'
  counts=$(echo "$said" | grep -E '^[0-9]+ passed, [0-9]+ failed$' | tail -1)
  passed=$((passed + $(echo "${counts:-0 0 0}" | cut -d' ' -f1)))
  failed=$((failed + $(echo "${counts:-0 0 1}" | cut -d' ' -f3)))
  [ $status -eq 0 ] || [ -z "$counts" ] || [ "${counts#*, }" != "0 failed" ] || failed=$((failed + 1))
}

part nginx python3 $scale/nginx_by_conversation.py

crd=${EY_INFERENCEPOOL_CRD:-$work/crd.yaml}
[ -f "$crd" ] || curl -fsSL --max-time 60 -o "$crd" "$crd_url" || crd=
npm install --silent --no-audit --no-fund --prefix "$work/npm" @kubernetes-models/keda@2.0.0 \
  @kubernetes-models/gateway-api@2.0.0 @kubernetes-models/prometheus-operator@6.0.0
venv kube kubernetes-validate pyyaml
part kubernetes "$work/kube/bin/python" $scale/kubernetes.py "$work/npm" "$eyelet" ${crd:+--crd "$crd"}

venv litellm 'litellm[proxy]'
part LiteLLM python3 $scale/litellm_proxy.py "$eyelet" "$work/litellm/bin/litellm"

venv ray 'ray[data]' "$wheel"
part Ray "$work/ray/bin/python" $scale/ray_caption.py

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
