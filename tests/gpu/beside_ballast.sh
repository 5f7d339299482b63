# SPDX-License-Identifier: Apache-2.0
# Sourced, with `eyelet` set, by the scripts that fill a GPU's memory next to eyelet. Changes to a temporary folder
# that is removed at the end.
tools=$(dirname "$eyelet")/tests/gpu
work=$(mktemp -d)
server="" ballast="" failed=0
cleanup() {
  [ -z "$server" ] || kill "$server" 2>/dev/null
  [ -z "$ballast" ] || kill "$ballast" 2>/dev/null
  rm -rf "$work"
}
trap cleanup EXIT
cd "$work" || exit 1
export HOME=$work HF_HOME=$work/no-cache
unset http_proxy all_proxy ALL_PROXY

# fill MIB: allocates GPU memory until only MIB are free
# empty: frees that memory and sets `least` to the least free memory since `fill`
fill() {
  coproc BALLAST { exec "$tools/ballast" "$1" 2>ballast.err; }
  ballast=$BALLAST_PID
  read -r -t 120 word free_mib <&"${BALLAST[0]}" && [ "$word" = ready ] && return
  cat ballast.err
  exit 1
}
empty() {
  local from=${BALLAST[0]} to=${BALLAST[1]}
  exec {from_copy}<&"$from"
  eval "exec $to>&-"
  read -r -t 30 _ least <&"$from_copy"
  exec {from_copy}<&-
  wait "$ballast" 2>/dev/null
  ballast=
}

# serve OPTION...: starts a server; sets server and port
serve() {
  "$eyelet" serve --device cuda --port 0 "$@" >serve.log 2>&1 </dev/null &
  server=$!
  port=
  for i in {1..1200}; do
    port=$(sed -n 's/.*ready on https*:\/\/127\.0\.0\.1:\([0-9]*\) .*/\1/p' serve.log)
    [ -n "$port" ] && return
    kill -0 "$server" 2>/dev/null || break
    sleep 0.1
  done
  return 1
}
stop() {
  kill "$server" 2>/dev/null
  wait "$server"
  local status=$?
  server=
  return $status
}

# tell CASE ok|FAILED WHAT...: prints a result
tell() {
  printf '%-44s %-7s %s\n' "$1" "$2" "${*:3}"
  [ "$2" = ok ] || failed=1
}
# complaints: prints the last output of a failed server or request
complaints() { { tail -n 5 serve.log ./*.err; head -qc 400 ./*.json; } 2>/dev/null | sed 's/^/    /'; }

# planned MODEL OPTION...: prints the MiB of a plan for the GPU with its current free memory
planned() { "$eyelet" plan --device cuda "$@" --json 2>/dev/null | sed -n 's/.*"total_bytes": \([0-9]*\).*/\1/p' | awk '{printf "%.0f", $1 / 1048576}'; }

# at_once N COMMAND...: runs COMMAND 1 to COMMAND N concurrently; fails if any of them does
at_once() {
  local n=$1 i job jobs=() status=0
  shift
  for i in $(seq "$n"); do
    "$@" "$i" &
    jobs+=($!)
  done
  for job in "${jobs[@]}"; do wait "$job" || status=1; done
  return $status
}

# case_of NAME FREE_MIB QUESTIONS SAYS MODEL OPTION...: serves the model with FREE_MIB free and calls QUESTIONS to ask
# it; SAYS prints a summary
case_of() {
  local name=$1 free=$2 questions=$3 says=$4 ok=ok plan
  shift 4
  rm -f ./*.json ./*.err
  fill "$free"
  plan=$(planned "$@")
  if serve "$@"; then
    "$questions" || ok=FAILED
    kill -0 "$server" 2>/dev/null || ok=FAILED
    stop || ok=FAILED
  else
    ok=FAILED
    stop
  fi
  empty
  tell "$name" "$ok" "took $((free_mib - least)) MiB of $free_mib, planned ${plan:-?}; $("$says")"
  grep -E 'chosen|instead of|GPU KV cache size' serve.log | sed 's/^/    /'
  [ "$ok" = ok ] || complaints
}
