#!/bin/bash
# The NBD server beside nbdkit (memory plugin) and qemu-nbd (a file in RAM), over unix sockets, under one client.
# All servers run at once, idle but for the one under load; each case is run on every server before the next case,
# and all of that ROUNDS times, each beginning with another server, so that a slow minute of the machine affects all servers
# equally.
#
#   usage: bench/nbd/nbd.sh [OUT.csv]        on standard output: medians, and ours as a multiple of the better peer
#   ROUNDS=5 SECONDS_EACH=2 SIZE_MIB=512 SERVER_CORES=0 CLIENT_CORES=1 CASES="randread:4096:32:1 …" may be set, and
#   CLIENTS=guests|apart, where ours shall have its clients: on the device's lane, or on threads of their own
set -eu
cd "$(dirname "$0")/../.."
out=${1:-nbd.csv}
rounds=${ROUNDS:-5} seconds=${SECONDS_EACH:-2} size_mib=${SIZE_MIB:-512}
server_cores=${SERVER_CORES:-0} client_cores=${CLIENT_CORES:-1}
# kind:block:depth:connections
cases=${CASES:-randread:4096:1:1 randread:4096:32:1 randread:4096:128:1 randread:4096:8:4 randread:4096:32:4
  randwrite:4096:1:1 randwrite:4096:32:1 randwrite:4096:128:1 randwrite:4096:8:4 randwrite:4096:32:4
  read:131072:16:1 write:131072:16:1 read:131072:4:4 write:131072:4:4
  read:1048576:16:1 write:1048576:16:1 read:1048576:4:4 write:1048576:4:4}

for tool in taskset python3; do
  command -v $tool > /dev/null || { echo "$tool is missing; run: apt-get install util-linux python3" >&2; exit 1; }
done
servers=stria
for peer in nbdkit qemu-nbd; do
  if command -v $peer > /dev/null; then servers+=" ${peer%-nbd}"; else echo "left out: $peer (apt-get install nbdkit qemu-utils)" >&2; fi
done
target=${CARGO_TARGET_DIR:-target}
cargo build --quiet --release --locked -p stria-front --example ram_server --example nbd_load

work=$(mktemp -d); image=/dev/shm/stria-nbd-$$.img; pids=()
trap 'kill "${pids[@]}" 2> /dev/null || true; rm -rf "$work" "$image"' EXIT
fallocate -l "${size_mib}M" "$image"

start() { # name command…
  local name=$1; shift
  taskset -c "$server_cores" "$@" > /dev/null < "$work/open" & pids+=($!)
  declare -g "pid_$name=$!"
  for _ in $(seq 100); do [ -S "$work/$name" ] && break; sleep 0.1; done
  # Written once, so that no server answers from untouched memory.
  "$target/release/examples/nbd_load" "$work/$name" write 1048576 4 1 2 > /dev/null
}
mkfifo "$work/open"; exec 9<> "$work/open"   # our server ends with its standard input
start stria "$target/release/examples/ram_server" "unix:$work/stria" "$size_mib" ${CLIENTS:-}
[[ $servers != *nbdkit* ]] || start nbdkit nbdkit -f -U "$work/nbdkit" memory "${size_mib}M"
[[ $servers != *qemu* ]] || start qemu qemu-nbd -k "$work/qemu" -f raw -t -e 16 --cache=none --aio=threads --discard=unmap "$image"

ticks() { awk '{print $14 + $15}' "/proc/$1/stat"; }
echo round,server,kind,block_bytes,depth,connections,iops,mb_per_s,mean_us,p50_us,p99_us,client_cpu_percent,server_ns_per_io > "$out"
for round in $(seq "$rounds"); do for case in $cases; do for server in $servers; do
  IFS=: read -r kind block depth connections <<< "$case"
  pid=pid_$server; before=$(ticks "${!pid}")
  line=$(taskset -c "$client_cores" "$target/release/examples/nbd_load" "$work/$server" "$kind" "$block" "$depth" "$connections" "$seconds")
  used=$(( $(ticks "${!pid}") - before ))
  # The client's 0.3 s of warming up are in the server's time as well.
  ns=$(awk -v t="$used" -v iops="${line%%,*}" -v s="$seconds" 'BEGIN { printf "%.0f", t * 1e7 / (iops * (s + 0.3)) }')
  echo "$round,$server,$kind,$block,$depth,$connections,$line,$ns" >> "$out"
done; done; [[ $servers != *" "* ]] || servers="${servers#* } ${servers%% *}"; done
python3 bench/nbd/table.py "$out"
