#!/bin/bash
# measure.sh RUNS BEFORE AFTER: runs the two commands in turn and prints what they
# took, CPU seconds in user mode with all their children: median (least to most).
set -eu
runs=$1
shift
TIMEFORMAT=%U
seconds() { { time bash -c "$1" >/dev/null 2>&1; } 2>&1; }
for ((i = 0; i < runs; i++)); do
	echo "before $(seconds "$1")"
	echo "after $(seconds "$2")"
done | sort -k1,1r -k2,2n | awk '
	{ t[$1, n[$1]++] = $2 }
	function median(w, h) { h = int(n[w] / 2); return n[w] % 2 ? t[w, h] : (t[w, h - 1] + t[w, h]) / 2 }
	function show(w) { printf "%-7s%6.2f s  (%.2f to %.2f, %d runs)\n", w, median(w), t[w, 0], t[w, n[w] - 1], n[w] }
	END { show("before"); show("after"); printf "%.2f times as fast\n", median("before") / median("after") }'
