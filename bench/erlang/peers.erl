%% The Erlang side of every benchmark row: erl +S N:N -noshell -pa DIR -run peers main ROW [ARG...]
%% Each program warms up, times itself and prints "metric value unit" lines; bench/run reads those.
-module(peers).
-export([main/1, report/3, seconds/1, rate/4]).

main([Row | Args]) ->
    Numbers = [list_to_integer(A) || A <- Args],
    {Module, Function} = row(Row),
    %% a process of its own: the one that boots has a group leader's mail and grown heap
    {Pid, Ref} = spawn_monitor(fun() -> apply(Module, Function, Numbers) end),
    receive
        {'DOWN', Ref, process, Pid, normal} -> halt(0);
        {'DOWN', Ref, process, Pid, Why} -> io:format(standard_error, "~p~n", [Why]), halt(1)
    end.

row("ring") -> {talk, ring};
row("pingpong") -> {talk, pingpong};
row("pairs") -> {talk, pairs};
row("tasks") -> {work, tasks};
row("fanout") -> {work, fanout};
row("ticker") -> {work, ticker};
row("dict") -> {tables, dict};
row("fair") -> {shares, fair};
row("ready") -> {shares, ready};
row("spawn") -> {birth, spawned};
row("waiting") -> {birth, waiting};
row("strings") -> {messages, strings};
row("integers") -> {messages, integers};
row("records") -> {messages, records}.

report(Metric, Value, Unit) -> io:format("~s ~.6g ~s~n", [Metric, float(Value), Unit]).

seconds(Fun) ->
    Start = erlang:monotonic_time(nanosecond),
    Fun(),
    (erlang:monotonic_time(nanosecond) - Start) / 1.0e9.

rate(Metric, Count, Fun, Unit) -> report(Metric, Count / seconds(Fun), Unit).
