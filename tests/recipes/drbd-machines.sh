# Two machines with an array each and DRBD between them, each of which is lost once under load and comes back:
# docs/recipes/DRBD.md. Both guests run this, and $1 says which one it is. A machine is lost by a reset without warning; then it
# runs this again, and what its drives hold tells it so.
side=$1
case $side in
alpha) ours=192.0.2.1 theirs=192.0.2.2 ;;
beta) ours=192.0.2.2 theirs=192.0.2.1 ;;
esac
ip link set lo up
ip addr add $ours/24 dev eth0
ip link set eth0 up
echo /bin/true >/sys/module/drbd/parameters/usermode_helper
mkdir -p /var/lock /var/run/drbd /var/lib/drbd /run/lock /mnt/tank
drbdsetup() { /usr/lib/drbd/drbdsetup-84 "$@"; }
drbdmeta() { /usr/sbin/drbdmeta --force 0 v08 /dev/ublkb0 internal "$@"; }

# The machines tell each other how far they are.
send() { echo "$1" | nc $theirs 9000 >/dev/null; }
tell() { wait_for "the other machine to hear \"$1\"" send "$1"; }
hear() { # WORD
    word=$(nc -l -p 9000 </dev/null)
    [ "$word" = "$1" ] || { echo "heard \"$word\" instead of \"$1\"" >&2; exit 1; }
}
shows() { grep -q "^ *0: .*$1" /proc/drbd; }
both="ds:UpToDate/UpToDate"
is_alone() { shows "ds:UpToDate/DUnknown" && ! shows cs:Connected; }
join() { drbdsetup connect tank ipv4:$ours:7788 ipv4:$theirs:7788 --protocol=C; }
load() { # NAME SECONDS
    fio --name="$1" --filename="/mnt/tank/$1" --rw=randwrite --bs=4k --size=8m --iodepth=8 --ioengine=libaio --direct=1 --verify=crc32c \
        --verify_backlog=64 --verify_fatal=1 --randseed=18 --time_based --runtime="$2" --minimal >>/tmp/fio.log 2>&1 &
    fio=$!
}
written() { # SECTORS
    [ "$(awk '{ print $7 }' /sys/block/ublkb0/stat)" -gt "$1" ]
}
goes_on() {
    begin=$(awk '{ print $7 }' /sys/block/ublkb0/stat)
    wait_for "more writes" written $((begin + 512))
}

is_new=false
if [ "$(dd if="$D0" bs=1M count=1 2>/dev/null | tr -d '\0' | wc -c)" = 0 ]; then
    is_new=true
    stria create tank --level 5 "$D0" "$D1" "$D2"
fi
# By its name: at the second boot of alpha one of its drives is no member any more.
serve tank tank --ublk=0
wait_for /dev/ublkb0 test -b /dev/ublkb0
if $is_new; then drbdmeta create-md; else drbdmeta apply-al; fi
drbdsetup new-resource tank
drbdsetup new-minor tank 0 0
drbdsetup attach 0 /dev/ublkb0 /dev/ublkb0 internal --on-io-error=detach

end() {
    drbdsetup down tank
    stria scrub tank --wait 2>/dev/null
    stria stop tank
    say done
}

case $side-$is_new in
alpha-true)
    join
    wait_for "the connection" shows "cs:Connected ro:Secondary/Secondary"
    # Both arrays are new and read as zeros.
    drbdsetup new-current-uuid --clear-bitmap 0
    wait_for "two sides that are the same" shows $both
    drbdsetup primary 0
    mke2fs -q -t ext4 /dev/drbd0
    mount -t ext4 /dev/drbd0 /mnt/tank
    load first 15
    goes_on
    stria fail tank 1 --force
    goes_on
    shows $both
    wait $fio
    say "a drive of alpha has failed under load, and DRBD has not noticed"
    load first 60
    goes_on
    tell reset
    wait_for "the loss of beta" is_alone
    goes_on
    wait $fio
    say "beta is lost, and the load went on and reads what it wrote"
    wait_for "two sides that are the same" shows $both
    synced_kib=$(dmesg | sed -n 's/.*drbd0: Began resync as SyncSource (will sync \([0-9]*\) KB.*/\1/p' | tail -n 1)
    size_kib=$(($(cat /sys/block/drbd0/size) / 2))
    say "beta is back; $synced_kib KiB of $size_kib were copied"
    [ "$synced_kib" -gt 0 ]
    [ "$synced_kib" -lt $((size_kib / 2)) ]
    sha256sum /mnt/tank/first >/mnt/tank/sum
    sync
    load second 600
    goes_on
    tell reset
    echo b >/proc/sysrq-trigger
    sleep 60 ;;
beta-true)
    join
    hear reset
    echo b >/proc/sysrq-trigger
    sleep 60 ;;
beta-false)
    join
    wait_for "two sides that are the same" shows $both
    hear reset
    wait_for "the loss of alpha" is_alone
    drbdsetup primary 0
    mount -t ext4 /dev/drbd0 /mnt/tank
    sha256sum -c /mnt/tank/sum
    load third 5
    wait $fio
    say "alpha is lost, and beta has every byte and goes on"
    tell return
    wait_for "two sides that are the same" shows $both
    load third 5
    wait $fio
    umount /mnt/tank
    drbdsetup secondary 0
    say "alpha is back"
    tell end
    end ;;
alpha-false)
    # Not before beta has gone on alone.
    hear return
    join
    hear end
    shows $both
    end ;;
esac
