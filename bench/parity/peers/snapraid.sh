#!/bin/bash
# snapraid.sh FOLDER: SnapRAID's raid library as FOLDER/libpeer_snapraid.a, from $SNAPRAID (the raid/ folder of its sources), else
# from Debian's source package (wants a deb-src line; 12.2 has no AVX-512).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$1"
if [ -z "${SNAPRAID:-}" ]; then
  ls -d snapraid-*/raid >/dev/null 2>&1 || apt-get source -qq --download-only snapraid
  ls -d snapraid-*/raid >/dev/null 2>&1 || tar xf snapraid_*.orig.tar.*
  SNAPRAID=$(echo "$PWD"/snapraid-*/raid)
fi
rm -rf snapraid.o libpeer_snapraid.a
mkdir snapraid.o
# As the project builds it: no -march.
for f in avx2 avx512 check gfni helper int intz memory module raid sse2 ssse3 tables x86 x86z; do
  if [ -f "$SNAPRAID/$f.c" ]; then gcc -O2 -w -c "$SNAPRAID/$f.c" -o "snapraid.o/$f.o"; fi
done
gcc -O2 -w -I"$SNAPRAID" -c "$here/snapraid.c" -o snapraid.o/peer.o
ar rc libpeer_snapraid.a snapraid.o/*.o
