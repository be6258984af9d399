#!/bin/bash
# NBD over TLS beside the same server without it, and beside nbdkit and qemu-nbd with it: over TCP on this machine, under fio with
# libnbd. Client and server check each other's certificates. All servers run at once, idle but for the one under load; each case is
# run on every server before the next case, and all of that ROUNDS times, each beginning with another server.
#
#   usage: bench/nbd/tls.sh [OUT.csv]        `bench/run tls` makes a table of it
#   ROUNDS=5 SECONDS_EACH=2 SIZE_MIB=512 SERVER_CORES=0 CLIENT_CORES=1 CASES="randread:4k:32:1 …" may be set
set -eu
cd "$(dirname "$0")/../.."
out=${1:-tls.csv}
rounds=${ROUNDS:-5} seconds=${SECONDS_EACH:-2} size_mib=${SIZE_MIB:-512}
server_cores=${SERVER_CORES:-0} client_cores=${CLIENT_CORES:-1}
# kind:block:depth:connections
cases=${CASES:-randread:4k:1:1 randread:4k:32:1 randwrite:4k:1:1 randwrite:4k:32:1 read:128k:16:1 write:128k:16:1 read:1m:8:1 write:1m:8:1}
for tool in taskset python3 fio openssl; do
  command -v $tool > /dev/null || { echo "$tool is missing; run: apt-get install util-linux python3 fio openssl" >&2; exit 1; }
done
servers="plain tls"
for peer in nbdkit qemu-nbd; do
  if command -v $peer > /dev/null; then servers+=" ${peer%-nbd}"; else echo "left out: $peer (apt-get install nbdkit qemu-utils)" >&2; fi
done
target=${CARGO_TARGET_DIR:-target}
cargo build --quiet --release --locked -p stria-front --example ram_server

work=$(mktemp -d); image=/dev/shm/stria-tls-$$.img; pids=()
trap 'kill "${pids[@]}" 2> /dev/null || true; rm -rf "$work" "$image"' EXIT
fallocate -l "${size_mib}M" "$image"

sign() { # NAME USAGE: a certificate of the authority, with the names that libnbd, QEMU and nbdkit look for
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$work/$1-key.pem" -subj "/CN=$1" -out "$work/$1.csr" 2> /dev/null
  openssl x509 -req -in "$work/$1.csr" -CA "$work/ca-cert.pem" -CAkey "$work/ca-key.pem" -CAcreateserial -days 2 -out "$work/$1-cert.pem" \
    -extfile <(printf 'subjectAltName=IP:127.0.0.1,DNS:localhost\nextendedKeyUsage=%s\nkeyUsage=digitalSignature\n' "$2") 2> /dev/null
}
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$work/ca-key.pem" -out "$work/ca-cert.pem" -days 2 \
  -subj /CN=authority -addext basicConstraints=critical,CA:true -addext keyUsage=keyCertSign 2> /dev/null
sign server serverAuth; sign client clientAuth

# libnbd searches for certificates in the user's home folder, if the user is not root.
mkdir -p "$work/home/.pki/libnbd"; cp "$work"/*.pem "$work/home/.pki/libnbd/"
client=(env "HOME=$work/home")
if [ "$(id -u)" = 0 ]; then
  chown -R nobody "$work/home"; chmod 711 "$work"
  client=(setpriv --reuid=nobody --clear-groups "${client[@]}")
fi

port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
start() { # NAME PORT command…
  declare -g "port_$1=$2"; local name=$1; shift 2
  taskset -c "$server_cores" "$@" > /dev/null < "$work/open" & pids+=($!)
  declare -g "pid_$name=$!"
}
load() { # SERVER KIND BLOCK DEPTH CONNECTIONS SECONDS
  local port=port_$1 uri="nbds://127.0.0.1:PORT/"
  [ "$1" != plain ] || uri="nbd://127.0.0.1:PORT/"
  taskset -c "$client_cores" "${client[@]}" fio --name=load --ioengine=nbd --uri="${uri/PORT/${!port}}" --rw="$2" --bs="$3" --iodepth="$4" --numjobs="$5" \
    --size="${size_mib}M" --time_based --runtime="$6" --group_reporting --output-format=json --output="$work/home/fio.json" > /dev/null
  # Warnings may stand before the JSON.
  sed -n '/^{/,$p' "$work/home/fio.json" |
    python3 -c 'import json, sys; job = json.load(sys.stdin)["jobs"][0]; print(job["read"]["iops"] + job["write"]["iops"])'
}
mkfifo "$work/open"; exec 9<> "$work/open"   # our servers end with their standard input
plain=$(port) tls=$(port) nbdkit=$(port) qemu=$(port)
start plain "$plain" "$target/release/examples/ram_server" "tcp:127.0.0.1:$plain" "$size_mib"
start tls "$tls" "$target/release/examples/ram_server" "tcp:127.0.0.1:$tls" "$size_mib" "tls=$work"
[[ $servers != *nbdkit* ]] || start nbdkit "$nbdkit" nbdkit -f -i 127.0.0.1 -p "$nbdkit" --tls=require --tls-certificates="$work" \
  --tls-verify-peer memory "${size_mib}M"
[[ $servers != *qemu* ]] || start qemu "$qemu" qemu-nbd -b 127.0.0.1 -p "$qemu" -f raw -t -e 16 --cache=none --aio=threads \
  --object "tls-creds-x509,id=tls0,endpoint=server,verify-peer=yes,dir=$work" --tls-creds tls0 "$image"
for server in $servers; do
  port=port_$server tries=0
  until (exec 3<> "/dev/tcp/127.0.0.1/${!port}") 2> /dev/null; do
    [ $((tries += 1)) -lt 300 ] || { echo "$server does not listen" >&2; exit 1; }
    sleep 0.1
  done
done
# Written once, so that no server answers from untouched memory.
for server in $servers; do load "$server" write 1m 4 1 2 > /dev/null; done

ticks() { awk '{print $14 + $15}' "/proc/$1/stat"; }
echo round,server,kind,block,depth,connections,iops,server_ns_per_io > "$out"
for round in $(seq "$rounds"); do for case in $cases; do for server in $servers; do
  IFS=: read -r kind block depth connections <<< "$case"
  pid=pid_$server; before=$(ticks "${!pid}")
  iops=$(load "$server" "$kind" "$block" "$depth" "$connections" "$seconds")
  used=$(( $(ticks "${!pid}") - before ))
  ns=$(awk -v t="$used" -v iops="$iops" -v s="$seconds" 'BEGIN { printf "%.0f", t * 1e7 / (iops * s) }')
  echo "$round,$server,$kind,$block,$depth,$connections,$iops,$ns" >> "$out"
done; done; servers="${servers#* } ${servers%% *}"; done
