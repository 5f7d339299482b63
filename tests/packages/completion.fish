# completion.fish SCRIPT BUILD: what Tab would offer in fish.
set PATH $argv[2] $PATH
set script (realpath $argv[1])
cd (mktemp -d); and touch picture.jpg
set -x HF_HUB_CACHE $PWD/none
source $script; or exit 1
set wrong 0

function offers # offers LINE WANTED...: what is offered, sorted
    set got (complete -C $argv[1] | string split -f 1 \t | sort)
    if test "$got" != "$argv[2..]"
        echo "$argv[1]: $got, not $argv[2..]"
        set -g wrong 1
    end
end
offers 'eyelet c' caption chat convert
offers 'eyelet serve --max-n' --max-num-batched-tokens --max-num-queued-reqs --max-num-seqs
offers 'eyelet ask --device c' cpu cuda
offers 'eyelet ask pict' picture.jpg
offers 'eyelet plan dem' demo
offers 'eyelet ask --max-tokens '
exit $wrong
