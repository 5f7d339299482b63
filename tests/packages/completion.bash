# completion.bash SCRIPT BUILD: what Tab would offer in bash.
PATH=$2:$PATH
cd "$(mktemp -d)" && mkdir folder && touch picture.jpg
mkdir -p hub/models--Some--Model/refs hub/models--Some--Model/snapshots/0123456789012345678901234567890123456789
printf 0123456789012345678901234567890123456789 >hub/models--Some--Model/refs/main
echo '{"architectures": ["X"]}' >hub/models--Some--Model/snapshots/0123456789012345678901234567890123456789/config.json
export HF_HUB_CACHE=$PWD/hub
. "$1" || exit 1
status=0

offers() { # offers WANTED WORD...: the last word is what Tab is pressed after
  local wanted=$1 got
  shift
  COMP_WORDS=(eyelet "$@") COMP_CWORD=$#
  _eyelet
  got=$(printf '%s\n' "${COMPREPLY[@]}" | sort | tr '\n' ' ')
  [ "$got" = "$wanted " ] || { echo "eyelet $*: $got, not $wanted"; status=1; }
}
offers 'caption chat convert' c
offers 'search serve' help se
offers '--max-connections --max-loaded-models --max-model-len --max-num-batched-tokens --max-num-queued-reqs --max-num-seqs --max-pixels' serve --max-
offers 'auto cpu cuda ref' ask --device ''
offers 'cpu cuda' ask --device = c
offers 'picture.jpg' ask pic
offers 'folder hub' serve --allowed-local-media-path ''
offers 'Some/Model' serve --model Some
offers 'demo' plan de
offers '' ask --max-tokens ''
exit $status
