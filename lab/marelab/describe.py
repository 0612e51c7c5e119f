"""describe: every measure of a trace, as text, CSV, JSON and figures.

`native/describe` reads a process's trace once and prints JSON; this module chooses the process, adds what the trace's header knows and writes
`description.json`. Its keys (all numbers, unless said otherwise; shares are 0 to 1):

    version                 1
    trace                   folder, command (list), complete, limit_reached, ring_events, lost_events, clock_gap_ms, stall_seconds
    process                 pid, image, command, executable: the one described (that with the most events, unless told)
    processes               list: pid, image, command, words, seconds
    seconds, events         duration of the process, allocations + frees + reallocs
    allocations             number, bytes, megabytes, mean, distinct_sizes, top_ten_share, failed,
                            top_sizes: [{size, number, share}] (ten),
                            routines: {malloc|calloc|realloc|aligned: {number, bytes, share}}, labels: {new, new_array}
    sizes                   {size: [...], number: [...]}: the distribution, ascending
    frees                   number (with null ones), null, null_share, by_another_thread, by_another_thread_share (of those that freed a
                            block), unknown (blocks allocated before the trace, or inherited by a fork), labels
    reallocs                number, in_place, moved, failed, freed (realloc(p, 0)), null
    retention               limits_seconds [short, medium]; short, medium, long: {number, share}; of `long`, never_freed: {number, bytes, share}
    lifetimes               seconds, operations, bytes: {upper: [...], number: [...]} (never-freed blocks apart, in `never_freed`)
    long_lived              block_operations 1000, cumulative [...]: long-lived allocations up to each block (the study's figures)
    pattern                 name (peak, growing, mixed, undetermined), reason, threshold_operations, fraction, share, distance, curve [...]
    live                    peak_bytes, peak_blocks, peak_seconds, peak_operations, end_bytes, end_blocks,
                            curve: {seconds, bytes, blocks}, curve_operations: {operations, bytes, blocks}
    threads                 list: number, tid, allocations, bytes, frees, frees_of_others
    memory                  anonymous_peak_bytes, malloc_share (live peak over it; null if unknown), note (text or null)
    order                   impossible_steps, relaxed_waits
    joint                   what fit draws from: see native `describe --joint`
    stacks                  list: number, bytes, frames (text), when stacks were sampled
"""
