#!/usr/bin/env python3
"""Medians of nbd.sh's CSV as a table; ours as a multiple of the better peer, in IOPS and in server time per I/O."""
import collections, csv, statistics, sys

rows = collections.defaultdict(lambda: collections.defaultdict(list))
for row in csv.DictReader(open(sys.argv[1])):
    case = row["kind"], int(row["block_bytes"]), int(row["depth"]), int(row["connections"])
    rows[case][row["server"]].append((float(row["iops"]), float(row["server_ns_per_io"])))
servers = [name for name in ("stria", "nbdkit", "qemu") if name in next(iter(rows.values()))]
print(f'{"case":32}' + "".join(f"{name + ' IOPS (spread)':>24}" for name in servers) + f'{"times better peer":>20}'
      + "".join(f"{name + ' ns':>11}" for name in servers))
for (kind, block, depth, connections), by_server in rows.items():
    median = {name: [statistics.median(column) for column in zip(*by_server[name])] for name in servers}
    def cell(name):
        iops = [iops for iops, _ in by_server[name]]
        return f"{median[name][0]:,.0f} ({(max(iops) - min(iops)) / median[name][0]:.0%})"
    better = max((median[name][0] for name in servers[1:]), default=median["stria"][0])
    print(f'{f"{kind} {block // 1024}K, {depth} deep, {connections} conn":32}' + "".join(f"{cell(name):>24}" for name in servers)
          + f'{median["stria"][0] / better:>20.2f}' + "".join(f"{median[name][1]:>11,.0f}" for name in servers))
