// The kernel's own RAID-6 library in user space, behind plain functions. v: data, P, Q.
#include <string.h>
#include <linux/raid/pq.h>
const char raid6_empty_zero_page[PAGE_SIZE] __attribute__((aligned(4096)));
extern struct raid6_calls raid6_call;
extern void (*raid6_2data_recov)(int, size_t, int, int, void **);
extern void (*raid6_datap_recov)(int, size_t, int, void **);
const char *linux_init(void) { raid6_select_algo(); return raid6_call.name; }
void linux_pq(int n, size_t bytes, void **v) { raid6_call.gen_syndrome(n + 2, bytes, v); }
// md's read-modify-write: take the old data out of P and Q, then put the new data in.
void linux_update(int n, int i, size_t bytes, void **v, void *after) {
  void *before = v[i];
  raid6_call.xor_syndrome(n + 2, i, i, bytes, v);
  v[i] = after;
  raid6_call.xor_syndrome(n + 2, i, i, bytes, v);
  v[i] = before;
}
// A page at a time, as the kernel does: its page of zeros has one page.
void linux_recover_two(int n, int a, int b, size_t bytes, void **v) {
  void *w[256];
  for (size_t at = 0; at < bytes; at += PAGE_SIZE) {
    for (int i = 0; i < n + 2; i++) w[i] = (char *)v[i] + at;
    raid6_2data_recov(n + 2, PAGE_SIZE, a, b, w);
  }
}
