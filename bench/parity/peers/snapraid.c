// SnapRAID's raid library behind plain functions. v: data, then parities.
#include <stdlib.h>
#include <string.h>
#include "raid.h"
#ifndef RAID_MODE_CAUCHY_RAID // its name up to 12.x
#define RAID_MODE_CAUCHY_RAID RAID_MODE_CAUCHY
#endif
void peer_snapraid_init(void) {
  static void *zero;
  raid_init();
  raid_mode(RAID_MODE_CAUCHY_RAID);
  if (posix_memalign(&zero, 4096, 1 << 20)) abort();
  memset(zero, 0, 1 << 20);
  raid_zero(zero);
}
void peer_snapraid_generate(int n, int parities, size_t bytes, void **v) { raid_gen(n, parities, bytes, v); }
void peer_snapraid_recover(int count, int *lost, int n, size_t bytes, void **v) {
  int parity[2] = {0, 1};
  raid_data(count, lost, parity, n, bytes, v);
}
