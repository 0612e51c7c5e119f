%% One process sends, another receives: binaries, lists, records.
-module(messages).
-export([strings/2, integers/2, records/2]).

-record(point, {x, y}).
-record(item, {id, name, place, tags}).

receiver(Main) ->
    receive
        {over, Ref} -> Main ! Ref, receiver(Main);
        {From, _Message} -> From ! ok, receiver(Main)
    end.

send(_, _, 0) -> ok;
send(To, Message, N) ->
    To ! {self(), Message},
    receive ok -> ok end,
    send(To, Message, N - 1).

%% each message is acknowledged: a rendezvous, as on the other sides, and the mailbox stays short
deliver(Message, Count, Unit) ->
    Self = self(),
    To = spawn_link(fun() -> receiver(Self) end),
    send(To, Message, Count div 10 + 1),
    peers:rate("transfers", Count, fun() -> send(To, Message, Count) end, Unit).

%% SIZE COUNT: a binary of more than 64 bytes goes by reference.
strings(Size, Count) -> deliver(binary:copy(<<"x">>, Size), Count, "messages/s").

%% N COUNT: lists made at run time, so that they are copied (literals are not).
integers(N, Count) -> deliver(lists:seq(1, N), Count, "transfers/s").

records(N, Count) ->
    Items = [#item{id = I, name = integer_to_binary(I), place = #point{x = I + 0.5, y = I - 0.5},
                   tags = [list_to_binary(T) || T <- ["red", "green", "blue"]]}
             || I <- lists:seq(1, N)],
    deliver(Items, Count, "transfers/s").
