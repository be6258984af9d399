#!/usr/bin/env python3
"""Tables in Markdown from bench/run's CSV: table.py MODEL PROCESSORS KERNEL LOAD [TABLE CSV]...

Medians over rounds, with the spread between the lowest and the highest. Ratios are taken within a round, where both
sides met the same machine, and their median is shown; those of `files` are ratios of medians, from `stria bench`.
"""
import collections, csv, datetime, statistics, sys

WRITE_IO = {"RAID 0 of 4": 1, "RAID 1 of 2": 2, "RAID 10 of 4": 2, "RAID 5 of 4": 4, "RAID 50 of 8": 4, "RAID 6 of 6": 6, "RAID 60 of 12": 6}


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def spread(values):
    middle = statistics.median(values)
    return f"±{(max(values) - min(values)) / 2 / middle:.0%}" if middle else ""


def table(header, rows):
    print("| " + " | ".join(header) + " |\n|" + " --- |" + " ---: |" * (len(header) - 1))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def by_case(rows, value):
    """{case: {subject: {round: value}}} in the order of the file."""
    cases = collections.defaultdict(lambda: collections.defaultdict(dict))
    for row in rows:
        cases[row["case"]][row["subject"]][row["round"]] = float(row[value])
    return cases


def ratio(ours, base):
    return [ours[round] / base[round] for round in ours if base.get(round)]


def levels(rows):
    print("## Levels on RAM members, one lane\n\nBitmap and write log as `stria create` makes them. `ratio`: to the bare member in the same round; in brackets the most that member")
    print("I/Os allow (a small write of RAID 5 is 4 of them, of RAID 6 is 6), and the share of it that is reached.\n")
    for unit, cases in (("IOPS", by_case(rows, "iops")), ("MB/s", by_case(rows, "mb_per_s"))):
        for case, subjects in cases.items():
            if case.startswith("4K") != (unit == "IOPS"):
                continue
            print(f"**{case}**\n")
            bare, lines = subjects["bare member"], []
            for subject, values in subjects.items():
                share = statistics.median(ratio(values, bare))
                law = 1 / WRITE_IO.get(subject, 1) if "4K random write" in case else 1
                note = f"{share:.2f}" if law == 1 or subject == "bare member" else f"{share:.2f} ({law:.2f}: {share / law:.2f})"
                lines.append([subject, f"{statistics.median(values.values()):,.0f}", spread(values.values()), note])
            table(["", unit, "spread", "ratio"], lines)


def cost(rows):
    print("## What the engine adds, on members that do nothing\n\nNanoseconds of processor time a 4 KiB request above the bare member's, no metadata.\n")
    cases = by_case(rows, "cpu_ns")
    subjects = list(next(iter(cases.values())))
    lines = []
    for case, values in cases.items():
        bare = values["bare member"]
        added = lambda subject: statistics.median(values[subject][round] - bare[round] for round in bare)
        lines.append([case, f"{statistics.median(bare.values()):.0f}"] + [f"+{added(subject):.0f}" for subject in subjects[1:]])
    table(["", *subjects], lines)


def sweeps(rows):
    print("## Rebuild and scrub of RAM members on one core\n\nAll bytes that members read and wrote in a second of processor time, beside one bare member's sequential copying. (A test measures the speed of")
    print("sweeps on members slower than the core: `cargo test -p stria-bench --test sweeps -- --nocapture`.)\n")
    cases = by_case(rows, "mb_per_s")
    bare = cases["bare read"]["bare member"]
    lines = []
    for case, subjects in cases.items():
        for subject, values in subjects.items():
            share = statistics.median(ratio(values, bare))
            lines.append([f"{subject}, {case.lower()}", f"{statistics.median(values.values()):,.0f}", spread(values.values()), f"{share:.2f}"])
    table(["", "MB/s", "spread", "to bare read"], lines)


def files(rows):
    print("## Levels on image files\n\nA real file system on this machine's drive, direct I/O, one lane; arrays as `stria create` makes them, with bitmap and write log.")
    print("Requests a second, and what part that is of a bare file's, and of what the geometry allows on files as fast; all are medians over rounds,")
    print("in each of which the array and the bare files took turns.\n")
    cases = collections.defaultdict(dict)
    for row in rows:
        cases[row["case"]][row["subject"]] = row
    subjects = list(dict.fromkeys(row["subject"] for row in rows))
    share = lambda text: f"{float(text):.2f}" if text else "-"
    cell = lambda row: f"{float(row['iops']):,.0f} ({share(row['of_member'])}, {share(row['of_allowed'])})"
    table(["", *subjects], [[case] + [cell(values[name]) if name in values else "" for name in subjects] for case, values in cases.items()])


def lanes(rows):
    print("## One array on several lanes\n\nEach lane has a thread, a processor and a load of its own at QD 32, on members that do nothing. Own: each lane gets requests for its")
    print("partition; any: for all of the array, so that other lanes do most. Thousand requests a second, and their ratio to as many times one lane's.\n")
    counts = sorted({int(row["lanes"]) for row in rows})
    cases = collections.defaultdict(lambda: collections.defaultdict(dict))
    for row in rows:
        cases[f"{row['subject']}, {row['case']}"][int(row["lanes"])][row["round"]] = float(row["iops"])
    lines = []
    for case, by_count in cases.items():
        line = [case]
        for count in counts:
            share = statistics.median(ratio(by_count[count], by_count[1])) / count
            line += [f"{statistics.median(by_count[count].values()) / 1000:,.0f}", spread(by_count[count].values()), f"{share:.2f}"]
        lines.append(line)
    table([""] + [name for count in counts for name in (f"{count} lane{'s' if count > 1 else ''}", "spread", "of linear")], lines)


def nbd(rows):
    print("## NBD over a unix socket\n\nServer and client on a processor each; memory behind each server; a client that batches.\n")
    cases = collections.defaultdict(lambda: collections.defaultdict(dict))
    for row in rows:
        connections = "connection" if row["connections"] == "1" else "connections"
        case = f"{row['kind']} {int(row['block_bytes']) // 1024}K QD {row['depth']}, {row['connections']} {connections}"
        cases[case][row["server"]][row["round"]] = float(row["iops"])
    servers = sorted({row["server"] for row in rows}, key=["stria", "nbdkit", "qemu"].index)
    absent = [name for name in ("nbdkit", "qemu") if name not in servers]
    if absent:
        print(f"Not here: {', '.join(absent)}.\n")
    lines = []
    for case, values in cases.items():
        cells = [f"{statistics.median(values[name].values()):,.0f} {spread(values[name].values())}" for name in servers]
        peers = [name for name in servers if name != "stria"]
        better = "-"
        if peers:
            best = {round: max(values[name][round] for name in peers) for round in values["stria"]}
            better = f"{statistics.median(ratio(values['stria'], best)):.2f}"
        lines.append([case, *cells, better])
    table(["requests a second", *servers, "to the better peer"], lines)


def tls(rows):
    print("## NBD over TLS\n\nOver TCP on this machine, under fio with libnbd, server and client on a processor each; memory behind each server. \"plain\" is "
          "Stria without TLS. In brackets: the server's time for a request, in nanoseconds.\n")
    cases = collections.defaultdict(lambda: collections.defaultdict(dict))
    for row in rows:
        case = f"{row['kind']} {row['block']} QD {row['depth']}, {row['connections']} connection{'s' * (row['connections'] != '1')}"
        cases[case][row["server"]][row["round"]] = float(row["iops"]), float(row["server_ns_per_io"])
    servers = sorted({row["server"] for row in rows}, key=["plain", "tls", "nbdkit", "qemu"].index)
    peers = servers[2:]
    if len(peers) < 2:
        print(f"Not here: {', '.join({'nbdkit', 'qemu'} - set(peers))}.\n")
    lines = []
    for case, values in cases.items():
        rates = {name: {round: rate for round, (rate, _) in values[name].items()} for name in servers}
        cost = {name: statistics.median(cost for _, cost in values[name].values()) for name in servers}
        cells = [f"{statistics.median(rates[name].values()):,.0f} {spread(rates[name].values())} ({cost[name]:,.0f})" for name in servers]
        better = "-"
        if peers:
            best = {round: max(rates[name][round] for name in peers) for round in rates["tls"]}
            better = f"{statistics.median(ratio(rates['tls'], best)):.2f}"
        lines.append([case, *cells, f"{statistics.median(ratio(rates['tls'], rates['plain'])):.2f}", better])
    table(["requests a second", *servers, "TLS to plain", "TLS to the better peer"], lines)


def fronts(rows):
    print("## What a front adds, on members that do nothing\n\nProcessor time of a 4 KiB request in nanoseconds: the front's turns, and the engine's own beside it. A client, a front and an array take")
    print("turns on one thread, as on a lane, with all requests of the queue depth in flight. vhost-user: a driver that writes rings in memory. NBD: a unix")
    print("socket. ublk: a file in memory in place of the kernel's driver, with the same system calls (one io_uring_enter for each turn, a pread or pwrite for each")
    print("request), which are a row of their own: the driver's cost differs. Time in the kernel is included, the cost of a lane's sleep and wake-up is not.")
    print("Instructions are those outside of the kernel, at QD 32.\n")
    times, counts, calls = collections.defaultdict(dict), {}, collections.defaultdict(list)
    for row in rows:
        case, front, values = (row["array"], row["kind"], int(row["depth"])), row["front"], (float(row["front_part"]), float(row["engine_part"]))
        if row["measure"] == "instructions":
            counts[case, front] = values
        elif row["array"] == "none":
            calls[case[1:]].append(values[0])
        else:
            times[case].setdefault(front, []).append(values)
    lines = []
    for (array, kind, depth), by_front in times.items():
        engine = statistics.median(engine for values in by_front.values() for _, engine in values)
        line = [f"{array}, {kind} QD {depth}", f"{engine:,.0f}"]
        for front, values in by_front.items():
            added = [value for value, _ in values]
            line.append(f"+{statistics.median(added):,.0f} {spread(added)}")
            if front == "ublk":
                alone = statistics.median(calls[kind, depth])
                line += [f"{alone:,.0f}", f"+{statistics.median(added) - alone:,.0f}"]
        lines.append(line)
    fronts = list(next(iter(times.values())))
    names = [name for front in fronts for name in ([front, "its system calls alone", "ublk without them"] if front == "ublk" else [front])]
    table(["ns a request", "engine", *names], lines)
    if counts:
        cases = list(dict.fromkeys(case for case, _ in counts))
        lines = [[f"{array}, {kind} QD {depth}", f"{counts[(array, kind, depth), fronts[0]][1]:,.0f}"]
                 + [f"+{counts[(array, kind, depth), front][0]:,.0f}" for front in fronts] for array, kind, depth in cases]
        table(["instructions a request", "engine", *fronts], lines)


def md(rows):
    print("## The real md\n\nUser Mode Linux on the same processor, RAM disks, md without SIMD parity: ratios to its own bare disk.\n")
    cases = collections.defaultdict(dict)
    for row in rows:
        kind = "whole stripe write" if row["rw"] == "write" else row["rw"]
        unit = "iops" if row["bs"] == "4k" else "KiB/s"
        block = "" if row["rw"] == "write" else f" {row['bs']}"
        cases[f"{kind}{block} QD {row['qd']}"][row["device"]] = float(row[unit])
    devices = list(dict.fromkeys(row["device"] for row in rows if row["device"] != "bare"))
    share = lambda values, name: f"{values[name] / values['bare']:.2f}" if values.get(name) and values.get("bare") else "-"
    lines = [[case] + [share(values, name) for name in devices] for case, values in cases.items()]
    table(["", *devices], lines)


def main(model, processors, kernel, load, *pairs):
    print(f"# How fast\n\n{datetime.datetime.now(datetime.UTC):%F}, {model} ({processors} processors), Linux {kernel}; `make bench` made this page. Load of other work at the start: {load}; a wide spread shows it too.\n")
    for name, path in zip(pairs[::2], pairs[1::2]):
        {"levels": levels, "cost": cost, "sweeps": sweeps, "files": files, "lanes": lanes, "nbd": nbd, "tls": tls, "fronts": fronts, "md": md}[name](rows_of(path))


main(*sys.argv[1:])
