# What the recipes share in the guest; tests/recipes/run puts it before each of them.
PATH=/usr/sbin:/usr/bin:/sbin:/bin
ln -s "$P0" /bin/stria
mkdir -p /mnt /run/stria

say() { echo "recipe: $*"; }

# Waits for a condition, for two minutes of a slow guest at most.
wait_for() { # WORDS COMMAND…
    words=$1
    shift
    for _ in $(seq 240); do
        "$@" >/dev/null 2>&1 && return
        sleep 0.5
    done
    echo "waited in vain for $words" >&2
    for log in /tmp/*.log; do echo "--- $log" && tail -n 20 "$log"; done >&2
    exit 1
}

# Serves an array as a block device; the name of its log, then what `stria serve` is told.
serve() { # NAME ARGUMENT…
    name=$1
    shift
    stria serve "$@" >>"/tmp/$name.log" 2>&1 &
    eval "pid_$name=$!"
}

# The guest's shell prefers its own.
mke2fs() { /usr/sbin/mke2fs "$@"; }
