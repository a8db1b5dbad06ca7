#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""stack_compare.py SAMPLES TRUTH: our stacks of stopped threads against those of libdwfl.

SAMPLES is what --samples wrote of `-e context-switches -c 1`, TRUTH what stack_truth wrote. The
last sample of a thread before it was stopped is the same state. Prints "CASES EQUAL BEYOND UNSAMPLED" and a
line for each miss: beyond are those that are libdwfl's as far as libdwfl came, and go on.
"""
import bisect
import collections
import json
import sys


def load(path):
    with open(path) as f:
        return [json.loads(line) for line in f]


def addresses(texts):
    return [int(text, 16) for text in texts]


def judge(sample, truth):
    """equal, beyond, or what is wrong."""
    if not sample or sample["time_ns"] < truth["asked_ns"]:
        return "not sampled"
    ours, theirs = addresses(sample["user_ips"]), addresses(truth["ips"])
    stop = sample.get("stop", "frame pointers")
    if ours == theirs:
        if stop == "complete":
            return "equal"
        return "as far as %s, and neither goes on" % stop if not truth["whole"] else stop
    if not truth["whole"] and len(ours) > len(theirs) and ours[:len(theirs)] == theirs:
        return "beyond" if stop == "complete" else stop
    same = 0
    while same < min(len(ours), len(theirs)) and ours[same] == theirs[same]:
        same += 1
    if same == len(ours):
        return "%s after %d of %d frames" % (stop, same, len(theirs))
    return "other frames after %d of %d (%s)" % (same, len(theirs), stop)


def main():
    samples = collections.defaultdict(list)
    for s in sorted(load(sys.argv[1]), key=lambda s: s["time_ns"]):
        samples[s["tid"]].append(s)
    times = {tid: [s["time_ns"] for s in v] for tid, v in samples.items()}
    results = collections.Counter()
    misses = []
    for truth in load(sys.argv[2]):
        tid = truth["tid"]
        at = bisect.bisect_right(times.get(tid, []), truth["time_ns"])
        sample = samples[tid][at - 1] if at else None
        result = judge(sample, truth)
        results[result] += 1
        if result not in ("equal", "beyond", "not sampled"):
            misses.append((truth["stop"], tid, result, truth.get("why", "")))
    # Another BPF program was running there: the kernel left it out, which says nothing about stacks.
    unsampled = results.pop("not sampled", 0)
    print(sum(results.values()), results["equal"], results["beyond"], unsampled)
    for miss in misses:
        print("miss: stop %d, thread %d: %s %s" % miss)


main()
