%% Processes by the hundred thousand: made and ended, made and woken.
-module(birth).
-export([spawned/1, waiting/1]).

%% COUNT: empty processes, watched to their end, in batches of 1000.
spawned(Count) ->
    Batches = Count div 1000,
    run(Batches div 20 + 1),
    T = peers:seconds(fun() -> run(Batches) end),
    peers:report("spawn", T * 1.0e6 / (Batches * 1000), "us").

run(0) -> ok;
run(N) ->
    Refs = [spawn_monitor(fun() -> ok end) || _ <- lists:seq(1, 1000)],
    [receive {'DOWN', Ref, process, _, _} -> ok end || {_, Ref} <- Refs],
    run(N - 1).

resident() ->
    {ok, Text} = file:read_file("/proc/self/smaps_rollup"),
    {match, [Kib]} = re:run(Text, "Rss:\\s+(\\d+)", [{capture, all_but_first, list}]),
    list_to_integer(Kib).

%% COUNT: processes that each wait for a message; then every one gets it.
waiting(Count) ->
    Self = self(),
    Before = resident(),
    Start = erlang:monotonic_time(nanosecond),
    Pids = [spawn(fun() -> receive go -> Self ! over end end) || _ <- lists:seq(1, Count)],
    Created = (erlang:monotonic_time(nanosecond) - Start) / 1.0e9,
    timer:sleep(200),
    After = resident(),
    Woken = peers:seconds(fun() ->
        [Pid ! go || Pid <- Pids],
        [receive over -> ok end || _ <- Pids]
    end),
    peers:report("create", Created, "s"),
    peers:report("wake", Woken, "s"),
    peers:report("both", Created + Woken, "s"),
    peers:report("memory", (After - Before) / Count, "KiB each").
