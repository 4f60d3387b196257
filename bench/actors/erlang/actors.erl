%% The rows of bench/actors.ts on Erlang/OTP. Reads "ROW COUNT" lines from standard input and answers each with one line:
%% units done and nanoseconds taken, or for bytes the units and the bytes. Ends with the input.
-module(actors).
-export([main/0]).

-define(BATCH, 1000).
-define(FAN_OUT, 100000).

main() ->
    case io:get_line("") of
        eof -> halt(0);
        {error, _} -> halt(1);
        Line ->
            [Row, Count] = string:tokens(string:trim(Line), " "),
            {Units, Amount} = row(list_to_atom(Row), list_to_integer(Count)),
            io:format("~b ~b~n", [Units, Amount]),
            main()
    end.

%% Each row in a process of its own, so that none inherits the heap of the one before. `Work` is timed.
apart(Prepare) ->
    Self = self(),
    {Pid, Monitor} = spawn_monitor(fun() ->
        Work = Prepare(),
        erlang:garbage_collect(),
        Begin = erlang:monotonic_time(nanosecond),
        Units = Work(),
        Self ! {self(), {Units, erlang:monotonic_time(nanosecond) - Begin}},
        exit(over)
    end),
    result(Pid, Monitor).

%% The processes of a row are linked to its own, so they end with it.
result(Pid, Monitor) ->
    receive {Pid, Result} -> receive {'DOWN', Monitor, _, _, _} -> Result end end.

row(tell_batches, Count) ->
    apart(fun() -> Self = self(), Sink = spawn_link(fun() -> sink_batches(0, Count, Self) end),
        fun() -> feed(Sink, Count), Count end end);
row(tell, Count) ->
    apart(fun() -> Self = self(), Sink = spawn_link(fun() -> sink(Count, Self) end),
        fun() -> tell(Sink, Count), receive done -> Count end end end);
row(ask_open, Count) ->
    apart(fun() -> Echo = spawn_link(fun echo/0),
        fun() -> ask_batches(Echo, Count), Count end end);
row(ask, Count) ->
    apart(fun() -> Echo = spawn_link(fun echo/0),
        fun() -> ask_each(Echo, Count), Count end end);
row(ping_pong, Count) ->
    apart(fun() -> Self = self(),
        A = spawn_link(fun() -> receive {peer, B} -> player(B, Self) end end),
        B = spawn_link(fun() -> player(A, Self) end),
        A ! {peer, B},
        fun() -> A ! Count, receive done -> Count end end end);
row(ring, Count) ->
    apart(fun() -> Self = self(),
        First = spawn_link(fun() -> receive {peer, Next} -> player(Next, Self) end end),
        Last = lists:foldl(fun(_, Next) -> spawn_link(fun() -> player(Next, Self) end) end, First, lists:seq(2, 1000)),
        First ! {peer, Last},
        fun() -> First ! Count, receive done -> Count end end end);
row(fan_out, Count) ->
    apart(fun() -> Self = self(), Leaves = leaves(Self), fan_out(Leaves, 1),
        fun() -> fan_out(Leaves, Count div ?FAN_OUT), Count end end);
row(fan_out_first, Count) ->
    apart(fun() -> Self = self(), Leaves = leaves(Self),
        fun() -> fan_out(Leaves, Count div ?FAN_OUT), Count end end);
row(spawn_stop, Count) ->
    apart(fun() -> fun() -> spawn_stop(Count), Count end end);
row(spawn, Count) ->
    apart(fun() -> fun() -> _ = spawn_many(Count, []), Count end end);
row(parent, Count) -> row(tell, Count);
row(bytes, Count) -> idle_bytes(Count).

idle_bytes(Count) ->
    Self = self(),
    {Pid, Monitor} = spawn_monitor(fun() ->
        erlang:garbage_collect(),
        Before = erlang:memory(processes),
        Pids = spawn_many(Count, []),
        Bytes = (erlang:memory(processes) - Before) div Count,
        Self ! {self(), {Count, Bytes}},
        exit({over, length(Pids)})
    end),
    result(Pid, Monitor).

tell(_, 0) -> ok;
tell(Sink, N) -> Sink ! N, tell(Sink, N - 1).

sink(0, Master) -> Master ! done;
sink(N, Master) -> receive _ -> sink(N - 1, Master) end.

feed(_, 0) -> ok;
feed(Sink, Left) -> tell(Sink, ?BATCH), receive more -> feed(Sink, Left - ?BATCH) end.

sink_batches(Heard, Count, _) when Heard =:= Count -> ok;
sink_batches(Heard, Count, Master) ->
    receive _ -> ok end,
    case (Heard + 1) rem ?BATCH of
        0 -> Master ! more;
        _ -> ok
    end,
    sink_batches(Heard + 1, Count, Master).

echo() ->
    receive
        {ask, Ref, From} -> From ! {Ref, 1}, echo();
        stop -> ok
    end.

ask_batches(_, Left) when Left =< 0 -> ok;
ask_batches(Echo, Left) ->
    Refs = [begin Ref = make_ref(), Echo ! {ask, Ref, self()}, Ref end || _ <- lists:seq(1, ?BATCH)],
    [receive {Ref, _} -> ok after 10000 -> exit(timeout) end || Ref <- Refs],
    ask_batches(Echo, Left - ?BATCH).

ask_each(_, 0) -> ok;
ask_each(Echo, Left) ->
    Ref = make_ref(),
    Echo ! {ask, Ref, self()},
    receive {Ref, _} -> ok after 10000 -> exit(timeout) end,
    ask_each(Echo, Left - 1).

player(Next, Master) ->
    receive
        stop -> ok;
        Left when Left > 1 -> Next ! Left - 1, player(Next, Master);
        _ -> Master ! done, player(Next, Master)
    end.

leaves(Master) -> [spawn_link(fun() -> leaf(Master) end) || _ <- lists:seq(1, ?FAN_OUT)].

%% A leaf counts on a counter all share, as the handlers of the other engines do; the last one says so.
leaf(Master) ->
    receive
        stop -> ok;
        Counter ->
            case atomics:sub_get(Counter, 1, 1) of
                0 -> Master ! done;
                _ -> ok
            end,
            leaf(Master)
    end.

fan_out(_, 0) -> ok;
fan_out(Leaves, Rounds) ->
    Counter = atomics:new(1, []),
    atomics:put(Counter, 1, ?FAN_OUT),
    [Leaf ! Counter || Leaf <- Leaves],
    receive done -> ok end,
    fan_out(Leaves, Rounds - 1).

spawn_stop(0) -> ok;
spawn_stop(N) -> spawn(fun idle/0) ! stop, spawn_stop(N - 1).

spawn_many(0, Pids) -> Pids;
spawn_many(N, Pids) -> spawn_many(N - 1, [spawn_link(fun idle/0) | Pids]).

idle() -> receive stop -> ok end.
