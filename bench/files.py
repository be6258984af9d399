#!/usr/bin/env python3
"""Every level on image files beside bare ones, as `stria create` makes arrays: files.py STRIA FOLDER RUN_MS ROUNDS > CSV"""
import csv, json, subprocess, sys

LEVELS = [("0", 4), ("1", 2), ("10", 4), ("5", 4), ("6", 6), ("50", 8), ("60", 12)]


def main(stria, folder, run_ms, rounds):
    out = csv.writer(sys.stdout)
    out.writerow(["subject", "case", "iops", "min", "max", "cpu_ns", "of_member", "of_allowed"])
    for level, count in LEVELS:
        command = [stria, "bench", "--json", "--level", level, "--files", str(count), "--dir", folder, "--size", "256MiB"]
        command += ["--bs", "4K", "--runtime", str(int(run_ms) / 1000), "--rounds", rounds]
        measured = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        for row in measured["comparison"]["rows"]:
            figure = row["array"]
            iops = figure["iops"]
            share = [row[key] for key in ("share_of_member", "share_of_allowed")]
            figures = [iops["median"], iops["min"], iops["max"], figure["cpu_ns_per_io"]]
            out.writerow([f"RAID {level} of {count}", row["label"], *(f"{figure:.0f}" for figure in figures), *share])
        sys.stdout.flush()


main(*sys.argv[1:])
