# SPDX-License-Identifier: MIT OR Apache-2.0
"""report.py GUEST_LOG SET_UPS BENCH_JSON: what run.sh's guest counted, as a table, and into the report of `ironwarp bench`."""
import json
import os
import sys

log, set_ups, report = sys.argv[1], int(sys.argv[2]), sys.argv[3]
BUDGET = {"first": 0.25, "goal": 0.05}

cost = {}
with open(log, errors="replace") as lines:
    for line in lines:
        words = line.split()
        if words[:1] != ["counted"] or "process_ns" not in words:
            continue
        provider, end = words[1], words[2]
        figures = dict(zip(words[3::2], map(int, words[4::2])))
        idle = figures["idle_process_ns"] / figures["idle_clock_ns"] * figures["clock_ns"]
        cost.setdefault(provider, {})[end] = {
            "instructions": round((figures["process_ns"] - idle) / set_ups),
            "idle_taken_out": round(idle / set_ups),
        }

both = {provider: sum(end["instructions"] for end in ends.values()) for provider, ends in cost.items() if len(ends) == 2}
if sorted(both) != ["host_integrated", "offloaded"]:
    sys.exit(f"host-cost: FAIL: counted are {cost}")
ratio = round(both["offloaded"] / both["host_integrated"], 3)
result = {"counted_by": "QEMU TCG, -icount shift=0", "set_ups": set_ups, **cost, "ratio": ratio, "budget": BUDGET}

whole = {}
if os.path.exists(report):
    with open(report) as file:
        whole = json.load(file)
whole.setdefault("host_per_set_up", None)
whole["host_per_set_up_with_kernel"] = result
with open(report, "w") as file:
    json.dump(whole, file, indent=2)
    file.write("\n")

print("host-cost: instructions of a set-up, user and kernel")
print(f"  {'provider':<16} {'client':>10} {'server':>10} {'both':>10}")
for provider, ends in cost.items():
    print(f"  {provider:<16} {ends['client']['instructions']:>10} {ends['server']['instructions']:>10} {both[provider]:>10}")
print(f"host-cost: offloaded by host integrated {ratio}; budget {BUDGET['first']}, goal {BUDGET['goal']}")
