# completion.zsh FOLDER BUILD: what Tab offers in zsh, on a terminal of its own.
export COMPLETIONS=${1:a} PATH=${2:a}:$PATH
cd $(mktemp -d) && touch picture.jpg && mkdir folder
export HF_HUB_CACHE=$PWD/none
zmodload zsh/zpty || exit 1
wrong=0

cat >setup.zsh <<'E2'
fpath=($COMPLETIONS $fpath)
PS1=
unsetopt prompt_cr prompt_sp beep
autoload -Uz compinit && compinit -u -D
bindkey '^I' complete-word
: >ready
E2
zpty shell zsh -f -i
zpty -w shell '. ./setup.zsh'
repeat 3000; do [[ -e ready ]] && break; sleep 0.1; done

offers() { # offers LINE WANTED...: after Tab those words stand on the terminal
  local line=$1 screen= piece word
  shift
  while zpty -r -t shell piece; do :; done
  zpty -w -n shell "$line"$'\t'
  repeat 3000; do
    sleep 0.1
    while zpty -r -t shell piece; do screen+=$piece; done
    for word; do [[ $screen == *"$word"* ]] || continue 2; done
    break
  done
  zpty -w -n shell $'\x15'
  for word; do [[ $screen == *"$word"* ]] || { print -r -- "$line: no $word in ${(q)screen}"; wrong=1; }; done
}
offers 'eyelet c' caption chat convert
offers 'eyelet help se' search serve
offers 'eyelet serve --max-num-' max-num-seqs max-num-queued-reqs 'requests that may wait'
offers 'eyelet ask --device c' cpu cuda
offers 'eyelet ask pict' picture.jpg
offers 'eyelet serve --allowed-local-media-path f' folder
offers 'eyelet plan dem' demo
zpty -d shell
exit $wrong
