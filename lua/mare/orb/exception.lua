--[[
mare.orb.exception: exceptions of CORBA as Lua errors.

An exception is a table: `_repid` and the members its IDL declares; a system exception has `minor`, `completed` and, where mare knows more than
the wire carries, `text`. They are raised with error(e, 0), so what pcall gives is the table itself; tostring makes a line of it.

The metatable of all exceptions is this module: so they travel between processes, where the receiver has the module itself.

Minor codes are kept as they are on the wire. The OMG's own ("OMG minor 2") have 0x4f4d in their upper half; system() takes the small number.
]]
local near = require "mare.orb.near"

local exception = { __name = "exception" }

local OMG, OMNI, JACORB = 0x4f4d0000, 0x41540000, 0x4a430000
exception.OMG = OMG

-- Every standard system exception, in the order of the specification (CORBA 3.3, annex A).
exception.names = {
  "UNKNOWN", "BAD_PARAM", "NO_MEMORY", "IMP_LIMIT", "COMM_FAILURE", "INV_OBJREF", "NO_PERMISSION", "INTERNAL", "MARSHAL", "INITIALIZE",
  "NO_IMPLEMENT", "BAD_TYPECODE", "BAD_OPERATION", "NO_RESOURCES", "NO_RESPONSE", "PERSIST_STORE", "BAD_INV_ORDER", "TRANSIENT", "FREE_MEM",
  "INV_IDENT", "INV_FLAG", "INTF_REPOS", "BAD_CONTEXT", "OBJ_ADAPTER", "DATA_CONVERSION", "OBJECT_NOT_EXIST", "TRANSACTION_REQUIRED",
  "TRANSACTION_ROLLEDBACK", "INVALID_TRANSACTION", "INV_POLICY", "CODESET_INCOMPATIBLE", "REBIND", "TIMEOUT", "TRANSACTION_UNAVAILABLE",
  "TRANSACTION_MODE", "BAD_QOS", "INVALID_ACTIVITY", "ACTIVITY_COMPLETED", "ACTIVITY_REQUIRED", "THREAD_CANCELLED",
}

-- What the OMG's minor codes say that are met in practice.
local meaning = {
  UNKNOWN = { "an exception that the operation doesn't declare", "a system exception that is not a standard one" },
  BAD_PARAM = { [7] = "no such scheme of references", [8] = "bad address in a reference", [9] = "bad text in a reference",
                [10] = "bad reference", [23] = "wide characters without a negotiated code set" },
  INV_OBJREF = { "the reference names no code set for wide characters" },
  INTF_REPOS = { "there is no interface repository" },
  NO_IMPLEMENT = { "there is no implementation of the value" },
  BAD_INV_ORDER = { [4] = "the broker is shut down" },
  TRANSIENT = { "the request was discarded", "no address of the reference answers", "the request was cancelled" },
  OBJECT_NOT_EXIST = { "there is no such object", "there is no such object adapter" },
  DATA_CONVERSION = { "a character does not exist in the negotiated code set" },
  CODESET_INCOMPATIBLE = { "the two sides have no code set in common" },
  OBJ_ADAPTER = { [2] = "the servant manager gave no servant" },
}

local standard, repids = {}, {}
for _, name in ipairs(exception.names) do
  repids[name] = "IDL:omg.org/CORBA/" .. name .. ":1.0"
  standard[repids[name]] = name
end

local completions = { [0] = "COMPLETED_YES", "COMPLETED_NO", "COMPLETED_MAYBE" }
local ordinals = { COMPLETED_YES = 0, COMPLETED_NO = 1, COMPLETED_MAYBE = 2 }

local function unknown(name)
  local meant = near(tostring(name), exception.names)
  error(("there is no system exception '%s'%s"):format(tostring(name), meant and "; did you mean " .. meant .. "?" or
    "; such are NO_PERMISSION, BAD_PARAM, TRANSIENT … (CORBA 3.3, annex A)"), 3)
end

--- A system exception to raise: its name, the minor code (small ones are the OMG's), completed, and text for people.
function exception.system(name, minor, completed, text)
  local repid = repids[name] or unknown(name)
  minor = minor or 0
  if minor > 0 and minor < 0x1000 then minor = OMG | minor end
  return setmetatable({ _repid = repid, minor = minor, completed = completed or "COMPLETED_NO", text = text }, exception)
end

--- A system exception as it came from the wire. One with an identifier that is no standard one is UNKNOWN with OMG minor 2.
function exception.received(repid, minor, completed)
  completed = completions[completed] or "COMPLETED_MAYBE"
  if standard[repid] then return setmetatable({ _repid = repid, minor = minor, completed = completed }, exception) end
  return exception.system("UNKNOWN", 2, completed, "the peer raised '" .. repid:sub(1, 100) .. "'")
end

--- The ordinal of `completed` on the wire.
function exception.completion(e) return ordinals[e.completed] or 2 end

--- A user exception: its type, or its repository id, and a table of its members, which becomes the exception.
function exception.user(T, members)
  members = members or {}
  members._repid = type(T) == "table" and T.id or T
  return setmetatable(members, exception)
end

--- The name of a system exception ("TRANSIENT"), or nil for anything else.
function exception.is_system(e)
  return type(e) == "table" and standard[rawget(e, "_repid")] or nil
end

-- The name in a repository id, "Mod::Name"; `prefix` is what #pragma prefix put before it, as far as can be told: names of IDL have no dots.
local function name_of(repid)
  local path = repid:match "^IDL:(.*):[%d.]+$"
  if not path then return nil end
  return ((path:match "^.*%.[^/]*/(.*)$" or path):gsub("/", "::"))
end

--- Is it an exception, of this repository id, name or type, if one is given?
function exception.is(e, what)
  if type(e) ~= "table" or type(rawget(e, "_repid")) ~= "string" then return false end
  if what == nil or e._repid == what then return true end
  if type(what) == "table" then return what.id == e._repid end
  return type(what) == "string" and not what:find "^%a+:[^:]" and name_of(e._repid) == what
end

local vendors = { [OMG] = "OMG minor %d", [OMNI] = "omniORB minor %d", [JACORB] = "JacORB minor %d" }

-- `text` is what follows: what that says is not said twice.
local function minor_text(name, minor, text)
  if minor == 0 then return nil end
  local vendor, code = minor & 0xfffff000, minor & 0xfff
  local format = vendors[vendor & 0xffff0000]
  local number = format and format:format(minor & 0xffff) or ("minor 0x%x"):format(minor)
  local why = vendor == OMG and meaning[name] and meaning[name][code]
  return why and not text:find(why, 1, true) and number .. ": " .. why or number
end

local MOST_SHOWN, DEEPEST = 10, 3                -- elements of a list, tables in each other
local LONGEST, LONGEST_INSIDE = 400, 60          -- bytes of a text: of an exception's member, which people may have to read; in a member

local members_text

local function show(value, depth)
  if type(value) == "string" then
    local most = depth == 1 and LONGEST or LONGEST_INSIDE
    return (("%q"):format(#value > most and value:sub(1, most - 3) .. "..." or value):gsub("\\\n", "\\n"))
  end
  if type(value) ~= "table" or getmetatable(value) then return tostring(value) end
  if depth > DEEPEST and next(value) ~= nil then return "{ ... }" end
  local items = {}
  for i = 1, math.min(#value, MOST_SHOWN) do items[i] = show(value[i], depth + 1) end
  if #value > MOST_SHOWN then items[#items + 1] = "..." end
  local members = members_text(value, depth + 1)
  if members ~= "" then items[#items + 1] = members end
  return #items == 0 and "{}" or "{ " .. table.concat(items, ", ") .. " }"
end

function members_text(e, depth)
  local names = {}
  for name in pairs(e) do
    if type(name) == "string" and (name:sub(1, 1) ~= "_" or depth > 1) then names[#names + 1] = name end
  end
  table.sort(names)
  for i, name in ipairs(names) do names[i] = name .. " = " .. show(e[name], depth) end
  return table.concat(names, ", ")
end

function exception.__tostring(e)
  local repid = tostring(rawget(e, "_repid"))
  local name = standard[repid]
  if name then
    local minor = minor_text(name, e.minor or 0, tostring(e.text or ""))
    local text = ("CORBA::%s (%s%s)"):format(name, minor and minor .. ", " or "", tostring(e.completed))
    return e.text and text .. ": " .. e.text or text
  end
  local short = (repid:match("^IDL:(.*):[%d.]+$") or repid):gsub("^omg%.org/", ""):gsub("/", "::")
  local members = members_text(e, 1)
  return members == "" and short or short .. ": " .. members
end

return exception
