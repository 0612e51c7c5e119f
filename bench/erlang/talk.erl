%% Processes that talk: ring, ping-pong, pairs.
-module(talk).
-export([ring/3, pingpong/1, pairs/2]).

%% passes a token on until it is used up
node(Next, Done) ->
    receive
        0 -> Done ! done, node(Next, Done);
        N -> Next ! N - 1, node(Next, Done)
    end.

first(Done) ->
    receive {next, Next} -> node(Next, Done) end.

%% SIZE TOKENS HOPS: every token does HOPS/TOKENS hops, all at the same time.
ring(Size, Tokens, Hops) ->
    Self = self(),
    First = spawn_link(fun() -> first(Self) end),
    Others = lists:foldl(fun(_, [Next | _] = Made) -> [spawn_link(fun() -> node(Next, Self) end) | Made] end,
                         [First], lists:seq(2, Size)),
    First ! {next, hd(Others)},
    Nodes = list_to_tuple(Others),
    Run = fun(Each) ->
        [element(T * Size div Tokens + 1, Nodes) ! Each || T <- lists:seq(0, Tokens - 1)],
        [receive done -> ok end || _ <- lists:seq(1, Tokens)]
    end,
    Run(2 * Size div Tokens + 1),
    Each = Hops div Tokens,
    peers:rate("hops", Each * Tokens, fun() -> Run(Each) end, "messages/s").

echo() ->
    receive {From, N} -> From ! N, echo() end.

trip(_, 0) -> ok;
trip(Echo, N) ->
    Echo ! {self(), N},
    receive N -> trip(Echo, N - 1) end.

volley(Main, N) ->
    Echo = spawn_link(fun echo/0),
    trip(Echo, 1000),
    Main ! ready,
    receive start -> ok end,
    trip(Echo, N),
    Main ! over.

%% Count pairs, N round trips each
volleys(Count, N) ->
    Self = self(),
    Pids = [spawn(fun() -> volley(Self, N) end) || _ <- lists:seq(1, Count)],
    [receive ready -> ok end || _ <- Pids],
    peers:rate("trips", Count * N, fun() ->
        [Pid ! start || Pid <- Pids],
        [receive over -> ok end || _ <- Pids]
    end, "round trips/s").

pingpong(N) -> volleys(1, N).

%% PAIRS TRIPS: independent pairs, TRIPS in all.
pairs(Count, N) -> volleys(Count, N div Count).
