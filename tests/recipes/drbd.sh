# DRBD between two Stria arrays, one side of which is lost under load and comes back: docs/recipes/DRBD.md.
# Both sides are in one kernel, each with a server of its own, and replicate over the loopback device: tests know no second
# machine.
ip link set lo up
echo /bin/true >/sys/module/drbd/parameters/usermode_helper
mkdir -p /var/lock /var/run/drbd /var/lib/drbd /run/lock
stria create left --level 5 "$D0" "$D1" "$D2"
stria create right --level 5 "$D3" "$D4" "$D5"
serve left left --ublk=0
serve right right --ublk=1
wait_for both test -b /dev/ublkb0 -a -b /dev/ublkb1

drbdsetup() { /usr/lib/drbd/drbdsetup-84 "$@"; }
drbdmeta() { /usr/sbin/drbdmeta "$@"; }
say "both arrays are served"

# Both arrays are new and read as zeros, so that nothing needs to be copied at the start: new-current-uuid says so.
for side in "0 left /dev/ublkb0 7788 7789" "1 right /dev/ublkb1 7789 7788"; do
    set -- $side
    drbdmeta --force "$1" v08 "$3" internal create-md
    drbdsetup new-resource "$2"
    drbdsetup new-minor "$2" "$1" 0
    drbdsetup attach "$1" "$3" "$3" internal --on-io-error=detach
    drbdsetup connect "$2" "ipv4:127.0.0.1:$4" "ipv4:127.0.0.1:$5" --protocol=C
done
# /proc/drbd has a line for each side: 0 is the left one.
shows() { # SIDE PATTERN
    grep -q "^ *$1: .*$2" /proc/drbd
}
wait_for "the connection" shows 0 "cs:Connected ro:Secondary/Secondary"
drbdsetup new-current-uuid --clear-bitmap 0
wait_for "two sides that are the same" shows 0 "ds:UpToDate/UpToDate"
drbdsetup primary 0
mke2fs -q -t ext4 /dev/drbd0
mkdir /mnt/tank
mount -t ext4 /dev/drbd0 /mnt/tank
load() { # SECONDS
    fio --name=load --filename=/mnt/tank/load --rw=randwrite --bs=4k --size=8m --iodepth=8 --ioengine=libaio --direct=1 --verify=crc32c \
        --verify_backlog=64 --verify_fatal=1 --randseed=18 --time_based --runtime="$1" --minimal >>/tmp/fio.log 2>&1 &
    fio=$!
}
written() { # SECTORS: so much has been written to the left array since the guest began
    [ "$(awk '{ print $7 }' /sys/block/ublkb0/stat)" -gt "$1" ]
}
goes_on() {
    begin=$(awk '{ print $7 }' /sys/block/ublkb0/stat)
    wait_for "more writes" written $((begin + 512))
}

# A drive of the left side fails: DRBD notices nothing.
load 15
goes_on
stria fail left 1 --force
goes_on
shows 0 "ds:UpToDate/UpToDate"
say "a drive of the left side has failed, and DRBD has not noticed"

# The right side is lost, with its server and its disk. DRBD goes on with one side.
kill -9 "$pid_right"
wait "$pid_right" || true
stria ublk remove 1 --force
wait_for "the left side alone" shows 0 "ds:UpToDate/\(Diskless\|Failed\)"
goes_on
wait "$fio"
say "the right side is lost, and the load went on and reads what it wrote"

# It comes back, and gets what changed meanwhile, not everything.
drbdsetup detach 1 --force
serve right right --ublk=1
wait_for /dev/ublkb1 test -b /dev/ublkb1
drbdmeta --force 1 v08 /dev/ublkb1 internal apply-al
drbdsetup attach 1 /dev/ublkb1 /dev/ublkb1 internal --on-io-error=detach
wait_for "two sides that are the same" shows 0 "ds:UpToDate/UpToDate"
synced_kib=$(dmesg | sed -n 's/.*drbd1: Began resync as SyncTarget (will sync \([0-9]*\) KB.*/\1/p' | tail -n 1)
size_kib=$(($(cat /sys/block/drbd0/size) / 2))
say "the right side is back; $synced_kib KiB of $size_kib were copied"
[ "$synced_kib" -gt 0 ]
[ "$synced_kib" -lt $((size_kib / 2)) ]

# The left side is lost in turn: the right one has everything.
sha256sum /mnt/tank/load >/tmp/before
umount /mnt/tank
drbdsetup down left
stria stop left
drbdsetup primary 1
mount -t ext4 /dev/drbd1 /mnt/tank
sha256sum -c /tmp/before
umount /mnt/tank
drbdsetup down right
stria scrub right --wait 2>/dev/null
stria stop right
say done
