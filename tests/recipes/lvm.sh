# LVM on a Stria array, with a drive that fails under load and is rebuilt on a spare: docs/recipes/LVM.md.
mkdir -p /etc/lvm /run/lock/lvm
# This guest has no udev, which makes the links of volumes elsewhere.
cat >/etc/lvm/lvm.conf <<END
activation { udev_sync = 0 udev_rules = 0 }
devices { obtain_device_list_from_udev = 0 }
END

stria create tank --level 5 --spare "$D4" "$D0" "$D1" "$D2" "$D3"
serve tank tank --ublk=0
wait_for /dev/ublkb0 test -b /dev/ublkb0

# A full stripe is three strips of 32 KiB; volumes begin where stripes do.
lvm pvcreate --dataalignment 96k /dev/ublkb0
lvm vgcreate --physicalextentsize 6m pool /dev/ublkb0
lvm lvcreate --yes --name data --size 64m pool
lvm lvcreate --yes --name logs --size 16m pool
mke2fs -q -t ext4 /dev/pool/data
mkdir /mnt/data
mount -t ext4 /dev/pool/data /mnt/data
lvm pvs
say "volumes are there"
fio --name=load --filename=/mnt/data/load --rw=randwrite --bs=4k --size=16m --iodepth=16 --ioengine=libaio --direct=1 --verify=crc32c \
    --verify_backlog=64 --verify_fatal=1 --time_based --runtime=10 --minimal >/tmp/fio.log 2>&1 &
fio=$!
wait_for "the load" test -s /mnt/data/load
code=0
stria stop tank || code=$?
[ "$code" = 4 ]
stria fail tank 2 --force
wait $fio
say "the load went on without the drive, and reads what it wrote"
wait_for "the rebuild" stria status tank
stria status tank
sha256sum /mnt/data/load >/tmp/before
umount /mnt/data
# The volume group moves to another start of the array.
lvm vgchange --activate n pool
stria stop tank
wait $pid_tank
serve tank tank --ublk=0
wait_for /dev/ublkb0 test -b /dev/ublkb0
lvm vgchange --activate y pool
mount -t ext4 /dev/pool/data /mnt/data
sha256sum -c /tmp/before
umount /mnt/data
lvm vgchange --activate n pool
stria scrub tank --wait 2>/dev/null
stria stop tank
say done
