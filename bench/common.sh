# Read by the benches: where the programs are, one timed command, and the middle of a column.
# Sets $bin; whoever uses `timed` has set $work.
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bin=${CARGO_TARGET_DIR:-$PWD/target}/release

# timed TOOL COMMAND...: runs it and prints seconds,user,system,peak_kib, also where it fails, which is said. The times
# are those of the command and of what it waited for. What it prints goes to $work/out and $work/err.
timed() {
    local tool=$1
    shift
    /usr/bin/time -f '%e,%U,%S,%M' "$@" >"$work/out" 2>"$work/err" || {
        echo "$tool failed:" >&2
        tail -n 5 "$work/err" >&2
    }
    tail -n 1 "$work/err"
}

middle() { sort -n | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }
