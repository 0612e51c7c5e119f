--[[
mare.oil.fault: exceptions of the broker as OiL's, and what a servant raises as the broker wants it.

OiL's system exceptions have the minor code as the OMG counts (2, not 0x4f4d0002), and those that were made here, not received, say in `error` what
happened: "badconnect", "timeout" …
]]
local exception = require "mare.orb.exception"
local Exception = require "mare.oil.Exception"

local fault = {}

-- OiL's words and the exceptions of CORBA they stand for.
local WORDS = {
  badsetup = "BAD_INV_ORDER", badshutdown = "INTERNAL", badinitialize = "INITIALIZE", badsocket = "NO_RESOURCES", badaddress = "NO_RESOURCES",
  badconnect = "TRANSIENT", badchannel = "COMM_FAILURE", badvalue = "MARSHAL", badstream = "MARSHAL", badexception = "UNKNOWN",
  badmessage = "INTERNAL", badversion = "IMP_LIMIT", badgiopimpl = "IMP_LIMIT", badcorbaloc = "INV_OBJREF", badobjref = "INV_OBJREF",
  badobjimpl = "NO_IMPLEMENT", badobjop = "BAD_OPERATION", badobjkey = "OBJECT_NOT_EXIST", badtype = "BAD_PARAM", terminated = "COMM_FAILURE",
  timeout = "TIMEOUT",
}
local LOCAL = { TRANSIENT = "badconnect", COMM_FAILURE = "badchannel", TIMEOUT = "timeout", BAD_PARAM = "badvalue", MARSHAL = "badstream",
                INV_OBJREF = "badobjref", BAD_INV_ORDER = "badsetup", OBJECT_NOT_EXIST = "badobjkey", NO_IMPLEMENT = "badobjimpl" }

local function id_of(name) return "IDL:omg.org/CORBA/" .. name .. ":1.0" end

--- The repository id of a system exception by its name | nil.
function fault.system(name)
  local id = id_of(name)
  return exception.is_system { _repid = id } and id or nil
end

-- Why no address answered, in LuaSocket's words.
local function reason(text)
  local lower = text:lower()
  if lower:find "refused" then return "connection refused" end
  if lower:find "name" or lower:find "resolve" or lower:find "address family" or lower:find "no such host" then return "host not found" end
  if lower:find "timeout" or lower:find "timed out" then return "timeout" end
  return text
end

--- An exception that a call has raised, as OiL's. `profile`: of the reference, `into`: function(T, value) for the members.
function fault.inward(err, profile)
  if not exception.is(err) or getmetatable(err) ~= exception then return err end
  local e = Exception({}, err._repid)
  for name, value in pairs(err) do e[name] = value end
  local name = exception.is_system(err)
  if not name then
    e[1] = err._repid
    return e
  end
  if e.minor & 0xfffff000 == exception.OMG then e.minor = e.minor & 0xfff end
  if err.text then
    e.error, e.errmsg = LOCAL[name], err.text
    if name == "TRANSIENT" and profile then
      e.errmsg, e.host, e.port, e.profile = reason(err.text), profile.decoded.host, profile.decoded.port, profile
      if e.port == 0 and profile.decoded.host == "_" then e.errmsg = "host not found" end
    end
  end
  return e
end

--- OiL's exception of a word: fault.new("badsetup", "setup missing").
function fault.new(word, text, fields)
  local e = Exception(fields or {}, id_of(WORDS[word] or "UNKNOWN"))
  e[1], e.error, e.minor, e.completed = text, word, word == "badconnect" and 2 or 0, "COMPLETED_NO"
  return e
end

--- The exception that a client gets for what a servant has raised, and whether nobody but the log will hear of the error.
function fault.outward(err)
  if type(err) == "table" then
    local id = rawget(err, "_repid")
    if type(id) == "string" then
      if exception.is_system(err) then
        err.minor, err.completed = err.minor or err.minor_code_value or 0, err.completed or err.completion_status or "COMPLETED_MAYBE"
      end
      return err, false
    end
    local word = rawget(err, 1)
    if type(word) == "string" and word:find "^IDL:" then
      err._repid = word
      return err, false
    end
    local name = WORDS[rawget(err, "error")]
    if name then
      return Exception({ tostring(err), error = err.error, minor = 0, completed = "COMPLETED_MAYBE" }, id_of(name)), false
    end
  end
  return Exception({ error = err, minor = 0, completed = "COMPLETED_MAYBE" }, id_of "UNKNOWN"), true
end

return fault
