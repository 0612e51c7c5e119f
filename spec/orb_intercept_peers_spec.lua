-- Interceptors beside JacORB's, which are portable interceptors in Java (spec/orb_peers/java/Marks.java): service contexts both ways.
-- runs under: mare
-- needs: plain
local orb = require "mare.orb"
local proc = require "spec.support.proc"
local runner = require "spec.orb_peers.pairs"
local foreign = require "spec.support.foreign"

local ASKS, ANSWERS = 0x4d415245, 0x4d415246

local function missing() return runner.missing "JacORB" end

describe("a service context", function()
  it("of ours is read by JacORB's interceptor, and its answer by ours", function()
    local why = missing()
    if why then return foreign.skip(why) end
    local handle, reference = runner.start { id = "marked", server = "JacORB", marks = true }
    local got = {}
    local client = orb.init { interceptors = { {
      send_request = function(_, info) info:add_request_service_context(ASKS, "from mare: " .. info.operation) end,
      receive_reply = function(_, info) got[#got + 1] = info:get_reply_service_context(ANSWERS) end,
    } } }
    client:loadfile "spec/orb_peers/rich.idl"
    local rich = client:proxy(reference, "Shore::Rich")
    local fine, err = pcall(function() for _ = 1, 3 do rich:ping() end end)
    client:close()
    handle:kill("KILL")
    handle:wait()
    assert.is_true(fine, tostring(err))
    assert.same({ "Java got: from mare: ping", "Java got: from mare: ping", "Java got: from mare: ping" }, got)
  end)

  it("of JacORB's interceptor is read by ours", function()
    local why = missing()
    if why then return foreign.skip(why) end
    local got = {}
    local server = orb.init { host = "127.0.0.1", log = function() end, interceptors = { {
      receive_request_service_contexts = function(_, info)
        local fine, data = pcall(info.get_request_service_context, info, ASKS)
        got[info.operation] = fine and data
      end,
    } } }
    server:loadfile "spec/orb_peers/rich.idl"
    local reference = tostring(server:serve(function() end, "Shore::Rich"))
    local rows = runner.talk({ id = "marked", client = "JacORB", marks = true, options = { "only=void" } }, reference)
    server:shutdown(10 * proc.slow)
    assert.is_true(#rows >= 0)
    local seen = {}
    for operation, data in pairs(got) do
      assert.equal("from Java: " .. operation, data)
      seen[#seen + 1] = operation
    end
    assert.is_true(#seen > 0, "no request came")
  end)
end)
