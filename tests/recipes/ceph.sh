#!/bin/bash
# A Ceph OSD on a Stria array, with a drive that fails and is rebuilt under `rados bench`: docs/recipes/CEPH.md.
# It runs outside of the guest: drives are image files, and the OSD's device is a file that nbdfuse shows.
#
#   usage: ceph.sh STRIA CEPH WORK      the program, a folder with Debian's packages of Ceph unpacked, and an empty folder
set -euo pipefail
stria=$(realpath "$1") ceph=$(realpath "$2") work=$(realpath "$3")
libraries=$ceph/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries:$libraries/ceph:$ceph/lib/x86_64-linux-gnu PYTHONPATH=$ceph/usr/lib/python3/dist-packages PATH=$ceph/usr/bin:$PATH CEPH_CONF=$work/ceph.conf
export PYTHONDONTWRITEBYTECODE=1
say() { echo "recipe: $*"; }

pids=()
end() {
    set +e
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null; done
    fusermount3 -u -z "$work/mnt" 2>/dev/null
    "$stria" stop ceph-recipe --force >/dev/null 2>&1
    wait
}
trap end EXIT
wait_for() { # WORDS COMMAND…
    local words=$1
    shift
    for _ in $(seq 480); do
        "$@" >/dev/null 2>&1 && return
        for pid in "${pids[@]}"; do
            kill -0 "$pid" 2>/dev/null || break 2
        done
        sleep 0.5
    done
    echo "waited in vain for $words" >&2
    tail -n 20 "$work"/*.log "$work"/*.out >&2
    exit 1
}

# The array, and its file.
drives=()
for index in 0 1 2 3 4; do
    truncate -s 1G "$work/drive$index"
    drives+=("$work/drive$index")
done
"$stria" create ceph-recipe --level 5 --spare "${drives[4]}" "${drives[@]:0:4}" >"$work/create.log"
"$stria" serve "${drives[@]}" --nbd "unix:$work/nbd.sock" >"$work/serve.log" 2>&1 &
mkdir "$work/mnt"
wait_for "the server" test -S "$work/nbd.sock"
nbdfuse "$work/mnt" --unix "$work/nbd.sock" >"$work/nbdfuse.log" 2>&1 &
wait_for "the array's file" test -f "$work/mnt/nbd"

# A monitor and one OSD, without authentication and without copies: the array is the redundancy.
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
fsid=$(cat /proc/sys/kernel/random/uuid) osd=$(cat /proc/sys/kernel/random/uuid)
cat >"$CEPH_CONF" <<END
[global]
fsid = $fsid
mon_host = v2:127.0.0.1:$port
public_network = 127.0.0.0/8
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
osd_pool_default_size = 1
osd_pool_default_min_size = 1
mon_allow_pool_size_one = true
osd_crush_chooseleaf_type = 0
osd_memory_target = 939524096
plugin_dir = $libraries/ceph
erasure_code_dir = $libraries/ceph/erasure-code
osd_class_dir = $libraries/rados-classes
run_dir = $work
admin_socket = $work/\$name.asok
log_file = $work/\$name.log
mon_data = $work/mon
osd_data = $work/osd
# The monitor ends where less of the disk than this, in percent, is free.
mon_data_avail_crit = 1
# A busy machine is no reason to call the OSD dead.
osd_op_thread_suicide_timeout = 600
END
monmaptool --create --fsid "$fsid" --addv a "[v2:127.0.0.1:$port]" "$work/monmap" >"$work/monmaptool.log"
ceph-mon --mkfs -i a --monmap "$work/monmap"
ceph-mon -f -i a >"$work/mon.out" 2>&1 &
pids+=($!)
wait_for "the monitor" ceph --connect-timeout 5 quorum_status
ceph osd new "$osd" >"$work/osd-new.log"
mkdir "$work/osd"
ln -s "$work/mnt/nbd" "$work/osd/block"
ceph-osd --mkfs -i 0 --osd-uuid "$osd" >"$work/mkfs.log" 2>&1
ceph-osd -f -i 0 >"$work/osd.out" 2>&1 &
osd_pid=$!
pids+=($osd_pid)
is_up() { ceph osd stat | grep -q "1 up"; }
wait_for "the OSD" is_up
ceph osd pool create bench 8 >"$work/pool.log" 2>&1
say "an OSD is up on the array"

# A drive fails under load, and the spare is rebuilt.
rados bench -p bench 30 write -b 65536 -t 8 --no-cleanup >"$work/bench.out" 2>&1 &
bench=$!
has_written() { [ "$(rados -p bench ls | wc -l)" -gt 16 ]; }
wait_for "the load" has_written
"$stria" fail ceph-recipe 1 --force
wait_for "the rebuild" "$stria" status ceph-recipe
if kill -0 "$bench" 2>/dev/null; then say "the spare is rebuilt, and the load still runs"; else say "the spare is rebuilt"; fi
wait "$bench"
say "rados bench: $(sed -n 's/^Total writes made: *//p' "$work/bench.out") writes, none failed"
rados bench -p bench 30 seq -t 8 >"$work/read.out" 2>&1
say "rados bench reads and compares what it wrote: $(sed -n 's/^Total reads made: *//p' "$work/read.out") reads"

# From the bottom: the OSD's own check, and the array's.
kill "$osd_pid"
wait "$osd_pid" || true
ceph-bluestore-tool fsck --deep 1 --path "$work/osd" >"$work/fsck.log" 2>&1
grep -q "fsck success" "$work/fsck.log"
"$stria" scrub ceph-recipe --wait 2>/dev/null
say done
