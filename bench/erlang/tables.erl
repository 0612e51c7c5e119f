%% One table that several processes use: an ETS table, as fast as its options make it for many writers.
-module(tables).
-export([dict/4]).

%% OP PROCESSES KEYS COUNT: KEYS binaries in turn. OP 1: update_counter, 2: lookup, 3: insert.
dict(Op, Processes, Keys, Count) ->
    Table = ets:new(dict, [set, public, {write_concurrency, auto}, {read_concurrency, true}]),
    Names = list_to_tuple([iolist_to_binary(["key ", integer_to_list(I)]) || I <- lists:seq(1, Keys)]),
    [ets:insert(Table, {element(I, Names), 0}) || I <- lists:seq(1, Keys)],
    Run = fun(Total) ->
        Each = Total div Processes,
        Refs = [spawn_monitor(fun() -> work(Op, Table, Names, Keys, Each) end) || _ <- lists:seq(1, Processes)],
        [receive {'DOWN', Ref, process, _, _} -> ok end || {_, Ref} <- Refs]
    end,
    Run(Count div 20),
    peers:rate("ops", Count, fun() -> Run(Count) end, "ops/s").

work(_, _, _, _, 0) -> ok;
work(1, T, Names, Keys, N) -> ets:update_counter(T, element(N rem Keys + 1, Names), 1), work(1, T, Names, Keys, N - 1);
work(2, T, Names, Keys, N) -> ets:lookup(T, element(N rem Keys + 1, Names)), work(2, T, Names, Keys, N - 1);
work(3, T, Names, Keys, N) -> ets:insert(T, {element(N rem Keys + 1, Names), N}), work(3, T, Names, Keys, N - 1).
