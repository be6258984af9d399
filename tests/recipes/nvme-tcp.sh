# A Stria array exported over NVMe/TCP by the kernel's target, with a host that goes on after a kill -9 of the server:
# docs/recipes/NVME_TCP.md.
ip link set lo up
mount -t configfs none /sys/kernel/config
stria create tank --level 6 "$D0" "$D1" "$D2" "$D3" "$D4"
serve tank tank --ublk=0
wait_for /dev/ublkb0 test -b /dev/ublkb0

# The target.
nqn=nqn.2026-11.example:tank
subsystem=/sys/kernel/config/nvmet/subsystems/$nqn
port=/sys/kernel/config/nvmet/ports/1
mkdir "$subsystem"
echo 1 >"$subsystem/attr_allow_any_host"
echo tank >"$subsystem/attr_serial"
mkdir "$subsystem/namespaces/1"
echo /dev/ublkb0 >"$subsystem/namespaces/1/device_path"
echo 1 >"$subsystem/namespaces/1/enable"
mkdir "$port"
echo tcp >"$port/addr_trtype"
echo ipv4 >"$port/addr_adrfam"
echo 127.0.0.1 >"$port/addr_traddr"
echo 4420 >"$port/addr_trsvcid"
ln -s "$subsystem" "$port/subsystems/$nqn"

# The host, which the package nvme-cli gives a name.
mkdir -p /etc/nvme
echo nqn.2014-08.org.nvmexpress:uuid:6b2f4a3c-7c51-4f0e-9a0d-5d1f2b8e7a10 >/etc/nvme/hostnqn
echo 6b2f4a3c-7c51-4f0e-9a0d-5d1f2b8e7a10 >/etc/nvme/hostid
nvme discover --transport tcp --traddr 127.0.0.1 --trsvcid 4420 >/tmp/discovered.log
grep -q "subnqn: *$nqn" /tmp/discovered.log
nvme connect --transport tcp --traddr 127.0.0.1 --trsvcid 4420 --nqn "$nqn" --reconnect-delay 2 --ctrl-loss-tmo 600
# The members of the array are NVMe drives too: the name of the subsystem tells which disk is the array.
controller=$(dirname "$(grep -l "^$nqn\$" /sys/class/nvme/*/subsysnqn)")
is_found() { disk=$(ls -d "$(dirname "$(grep -l "^$nqn\$" /sys/class/nvme-subsystem/*/subsysnqn)")"/nvme*n1) && disk=/dev/${disk##*/} && [ -b "$disk" ]; }
wait_for "the host's disk" is_found
is_live() { [ "$(cat "$controller/state")" = live ]; }
is_down() { ! is_live; }
say "the host sees $disk of $(cat "/sys/block/${disk#/dev/}/size") sectors"

mke2fs -q -t ext4 "$disk"
mkdir /mnt/tank
mount -t ext4 "$disk" /mnt/tank
load() { # SECONDS
    fio --name=load --filename=/mnt/tank/load --rw=randwrite --bs=4k --size=16m --iodepth=16 --ioengine=libaio --direct=1 --verify=crc32c \
        --verify_backlog=64 --verify_fatal=1 --time_based --runtime="$1" --minimal >>/tmp/fio.log 2>&1 &
    fio=$!
}
written() { # SECTORS: so much has been written to the array since the guest began
    [ "$(awk '{ print $7 }' /sys/block/ublkb0/stat)" -gt "$1" ]
}
goes_on() {
    begin=$(awk '{ print $7 }' /sys/block/ublkb0/stat)
    wait_for "more writes" written $((begin + 1024))
}

# The server dies under load: the kernel holds the requests back until the next one, and the host waits.
load 20
goes_on
kill -9 "$pid_tank"
wait "$pid_tank" || true
stria ublk && exit 1
serve tank tank --ublk
goes_on
is_live
say "a kill -9 of the server was a pause for the host"

# The target goes away under load, as when its machine starts again: the host loses its connection and makes it again.
rm "$port/subsystems/$nqn"
wait_for "the loss of the connection" is_down
say "the host has lost its connection: $(cat "$controller/state")"
ln -s "$subsystem" "$port/subsystems/$nqn"
wait_for "the host to connect again" is_live
goes_on
wait "$fio"
say "the load reads what it wrote"

# The end, from the top.
umount /mnt/tank
code=0
stria stop tank || code=$?
[ "$code" = 4 ]
nvme disconnect --nqn "$nqn"
rm "$port/subsystems/$nqn"
echo 0 >"$subsystem/namespaces/1/enable"
stria stop tank
wait "$pid_tank"
say done
