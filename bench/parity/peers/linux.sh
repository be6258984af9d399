#!/bin/bash
# linux.sh FOLDER: the RAID-6 library of Debian's kernel source (apt-get install linux-source-6.1) as FOLDER/libpeer_linux.a.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
s=linux-source-6.1
cd "$1"
[ -d $s/lib/raid6 ] || tar xf /usr/src/$s.tar.xz $s/lib/raid6 $s/include/linux/raid
# Stubs of our own for the kernel headers that the library's user-space build does not bring.
mkdir -p stubs/linux
printf '#ifndef EXPORT_SYMBOL\n#define EXPORT_SYMBOL(x)\n#define EXPORT_SYMBOL_GPL(x)\n#endif\n' >stubs/linux/export.h
: >stubs/linux/compiler.h
make -s -C $s/lib/raid6/test OPTFLAGS="-O2 -I$PWD/stubs" raid6.a
gcc -O2 -w -DCONFIG_X86_64 -DCONFIG_X86 -Istubs -I$s/include -I$s/lib/raid6 -c "$here/linux.c" -o linux.o
cp $s/lib/raid6/test/raid6.a linux.a
ar r linux.a linux.o
mv linux.a libpeer_linux.a
