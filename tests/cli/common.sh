# SPDX-License-Identifier: Apache-2.0
# Sourced by the other scripts, which print one TAP line for each case. `eyelet` is the program. Each script runs in
# its own folder, where `out` and `err` have the output of the last call.
unset EYELET_SERVER EYELET_API_KEY VLLM_API_KEY
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
ran=0 failed=0

say() { # say NAME: "ok" or "not ok", by the exit status of the last command
  if [ $? -eq 0 ]; then echo "ok $((++ran)) $1"; else echo "not ok $((++ran)) $1"; failed=$((failed + 1)); show; fi
}
show() { sed 's/^/# stdout: /' out | head -20; sed 's/^/# stderr: /' err | head -20; echo "# status: ${status-}"; }

# matches FILE PATTERN: an extended regular expression; "-": the file is empty; "*": anything.
matches() {
  case $2 in
    -) [ ! -s "$1" ] ;;
    '*') true ;;
    *) grep -qE -- "$2" "$1" ;;
  esac
}

# try NAME STATUS STDOUT STDERR ARGUMENT...; standard input is the file `in`, if it exists
try() {
  local name=$1 want=$2 want_out=$3 want_err=$4
  shift 4
  "$eyelet" "$@" >out 2>err <"$([ -e in ] && echo in || echo /dev/null)"
  status=$?
  [ $status -eq "$want" ] && matches out "$want_out" && matches err "$want_err"
  say "$name"
}

# same NAME WANTED KEY...: compares the values at the keys of the JSON lines in `out`
same() {
  local name=$1 want=$2
  shift 2
  [ "$("$json_at" "$@" <out 2>>err)" = "$want" ]
  say "$name"
}

# await COMMAND...: repeats the command until it succeeds, for at most five minutes
await() {
  local i
  for ((i = 0; i < 6000; i++)); do "$@" && return; sleep 0.05; done
  return 1
}

# ended PID: whether this child has ended
ended() { ! kill -0 "$1" 2>/dev/null; }

# listens PID: whether the process is the program and catches SIGINT. The name is checked first, because the shell
# that starts it catches SIGINT, too.
listens() {
  local caught
  [ "$(readlink "/proc/$1/exe")" = "$eyelet" ] &&
    caught=$(awk '/^SigCgt/ {print substr($2, 9)}' "/proc/$1/status" 2>/dev/null) && (((16#0$caught & 2) != 0))
}
