-- requests PROCESSES COUNT: one asks each of the processes in turn, and waits for its answer. Every process has a channel of its own.
local mare = require "mare"
local measure = require "measure"
local spawn, channel = mare.process.spawn, mare.channel.new

local many, count = measure.arg(1), measure.arg(2)

local function serve(questions, answers)
  for n in questions:each() do answers:send(n + 1) end
end

local questions, answers = {}, channel()
for i = 1, many do
  questions[i] = channel()
  spawn(serve, questions[i], answers)
end

local function ask(total)
  for i = 1, total do
    questions[i % many + 1]:send(i)
    answers:receive()
  end
end

ask(many)
measure.rate("requests", count, "requests/s", function() ask(count) end)
for i = 1, many do questions[i]:close() end
