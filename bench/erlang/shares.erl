%% Shares of the schedulers: pairs beside processes that compute, and processes that only yield beside one that does not.
-module(shares).
-export([fair/2, ready/1]).

now_us() -> erlang:monotonic_time(microsecond).

%% computes for so many microseconds, some 0.1 ms at a time, and counts that
compute(Time) -> compute(now_us() + Time, 0).
compute(Till, Rounds) ->
    steps(50000),
    Now = now_us(),
    if Now >= Till -> Rounds + 1; true -> compute(Till, Rounds + 1) end.
steps(0) -> ok;
steps(N) -> steps(N - 1).

%% KIND BUSY: what 100 ping-pong pairs keep of their rate beside BUSY others, and how evenly those share the rest, over 2 s.
%% KIND 1 computes for ever, 2 computes 5 ms for each message, 3 yields every 5 ms.
fair(Kind, Count) ->
    Trips = counters:new(1, [atomics]),
    [spawn(fun() -> volley(spawn(fun echo/0), Trips, 0) end) || _ <- lists:seq(1, 100)],
    rate(Trips, 200),
    Alone = rate(Trips, 1000),
    Done = counters:new(Count, [atomics]),
    [begin
         Busy = spawn(fun() -> busy(Kind, Done, I) end),
         if Kind =:= 2 -> spawn(fun() -> feed(Busy) end); true -> ok end
     end || I <- lists:seq(1, Count)],
    peers:report("kept", rate(Trips, 2000) / Alone, "of the pairs' rate"),
    All = [counters:get(Done, I) || I <- lists:seq(1, Count)],
    peers:report("spread", lists:max(All) / max(1, lists:min(All)), "most / least").

rate(Trips, Time) ->
    Before = counters:get(Trips, 1),
    Start = now_us(),
    timer:sleep(Time),
    (counters:get(Trips, 1) - Before) / (now_us() - Start).

echo() -> receive {From, V} -> From ! V, echo() end.

volley(Echo, Trips, N) ->
    Echo ! {self(), N},
    receive N -> ok end,
    if N rem 100 =:= 99 -> counters:add(Trips, 1, 100); true -> ok end,
    volley(Echo, Trips, N + 1).

feed(Busy) ->
    Busy ! self(),
    receive taken -> feed(Busy) end.

busy(1, Done, I) -> counters:add(Done, I, compute(100)), busy(1, Done, I);
busy(2, Done, I) ->
    receive From -> From ! taken end,
    counters:add(Done, I, compute(5000)),
    busy(2, Done, I);
busy(3, Done, I) -> counters:add(Done, I, compute(5000)), erlang:yield(), busy(3, Done, I).

%% KIND: the longest time between two turns of any of 1,000 processes that only yield, over 2 s, beside one that
%% KIND 1 computes for ever, 2 spawns in a loop; and how many processes there are at most.
ready(Kind) ->
    Main = self(),
    [spawn(fun() -> Now = now_us(), yielder(Main, Now, Now, 0) end) || _ <- lists:seq(1, 1000)],
    spawn(fun() -> hog(Kind) end),
    Most = watch(now_us(), 0),
    Worst = lists:max([receive {gap, G} -> G end || _ <- lists:seq(1, 1000)]),
    peers:report("gap", Worst / 1000, "ms"),
    peers:report("processes", Most, "at most").

yielder(Main, Start, Last, Worst) ->
    erlang:yield(),
    Now = now_us(),
    New = max(Worst, Now - Last),
    if Now - Start > 2000000 -> Main ! {gap, New}; true -> yielder(Main, Start, Now, New) end.

hog(1) -> hog(1);
hog(2) -> spawn(fun() -> ok end), hog(2).

watch(Start, Most) ->
    timer:sleep(10),
    New = max(Most, erlang:system_info(process_count)),
    case now_us() - Start > 2000000 of true -> New; false -> watch(Start, New) end.
