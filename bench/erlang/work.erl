%% Processes that compute: tasks of a given length, fan-out, the ticker beside a busy loop.
-module(work).
-export([tasks/0, tasks/1, tasks/3, fanout/2, ticker/0]).

%% a unit of work: steps of a linear congruential generator
spin(0, X) -> X;
spin(N, X) -> spin(N - 1, (X * 1664525 + 1013904223) band 16#7fffffff).

%% without arguments: how many steps take 20 us, the best of a few tries
tasks() ->
    N = 1000000,
    Best = lists:min([peers:seconds(fun() -> spin(N, 1) end) || _ <- lists:seq(1, 7)]),
    io:format("steps ~b steps~n", [trunc(20.0e-6 / Best * N)]).
tasks(_) -> tasks().

%% WORKERS COUNT STEPS: a master hands out COUNT tasks; a worker asks for the next one by sending its result.
tasks(Workers, Count, Steps) ->
    Run = fun(Total) ->
        Master = self(),
        Pids = [spawn_link(fun() -> worker(Master, Steps) end) || _ <- lists:seq(1, Workers)],
        hand_out(Pids, Total),
        ok
    end,
    Run(Count div 20),
    peers:rate("tasks", Count, fun() -> Run(Count) end, "tasks/s").

hand_out(Pids, Total) ->
    [Pid ! task || Pid <- Pids],
    hand_out_more(Total - length(Pids)),
    [receive {_, _} -> ok end || _ <- Pids],
    [Pid ! stop || Pid <- Pids].

hand_out_more(0) -> ok;
hand_out_more(Left) ->
    receive {Pid, _} -> Pid ! task, hand_out_more(Left - 1) end.

worker(Master, Steps) ->
    receive
        task -> Master ! {self(), spin(Steps, 1)}, worker(Master, Steps);
        stop -> ok
    end.

fib(N) when N < 2 -> N;
fib(N) -> fib(N - 1) + fib(N - 2).

%% TASKS N: TASKS processes compute fib(N), the main one waits for all.
fanout(Count, N) ->
    peers:rate("tasks", Count, fun() ->
        Refs = [spawn_monitor(fun() -> exit(fib(N)) end) || _ <- lists:seq(1, Count)],
        [receive {'DOWN', Ref, process, _, _} -> ok end || {_, Ref} <- Refs]
    end, "tasks/s").

%% how many of 100 ticks, 10 ms apart, happen within 2 s beside a loop that never gives way
ticker() ->
    spawn(fun busy/0),
    Start = erlang:monotonic_time(microsecond),
    {Ticks, Latest} = tick(0, Start, 0),
    peers:report("ticks", Ticks, "of 100"),
    peers:report("latest", Latest / 1000, "ms").

busy() -> busy().

tick(100, _, Latest) -> {100, Latest};
tick(N, Start, Latest) ->
    Before = erlang:monotonic_time(microsecond),
    timer:sleep(10),
    Now = erlang:monotonic_time(microsecond),
    if Now - Start > 2000000 -> {N, Latest};
       true -> tick(N + 1, Start, max(Latest, Now - Before - 10000))
    end.
