-- corbaname: a naming context and a name in it, as one text (CORBA 3.3 part 2, 13.6.10 of the Naming Service's 2.5.3).
--
--   corbaname::host:2809#trains/red.engine      corbaname:iiop:1.2@host/Other#a      corbaname:rir:#a      corbaname::host
--
-- Before the # stands a corbaloc, whose key is NameService where it has none; behind it a name. Without a name it is the context itself.
--
-- A name is components with / between them; a component is id.kind, id alone, .kind, or a dot: both are empty. A backslash before a /, a dot or a
-- backslash makes it part of the id or the kind. In a corbaname bytes that are not allowed in a URL are %xx, the backslash and the blank among them.
local corbaloc = require "mare.orb.giop.corbaloc"

local corbaname = {}

-- One component from `at` on: its two parts, how many dots there are, and where it ends.
local function component(text, at)
  local parts, dots = { {}, {} }, 0
  local part = parts[1]
  while at <= #text do
    local c = text:sub(at, at)
    if c == "/" then break end
    if c == "." then
      dots = dots + 1
      if dots > 1 then return nil, at, "a component has one dot, between id and kind; another is written \\." end
      part = parts[2]
    else
      if c == "\\" then
        at = at + 1
        c = text:sub(at, at)
        if not c:find "^[./\\]$" then return nil, at, "a backslash stands before a dot, a / or another backslash" end
      end
      part[#part + 1] = c
    end
    at = at + 1
  end
  local id, kind = table.concat(parts[1]), table.concat(parts[2])
  if dots == 0 and id == "" then return nil, at, "a component is missing; one of which both parts are empty is written as a dot" end
  if dots == 1 and kind == "" and id ~= "" then return nil, at - 1, "behind the dot the kind is missing" end
  return { id = id, kind = kind }, at
end

-- corbaname.name(text) -> { { id =, kind = } … } | nil, message: of a name alone, without the escapes of URLs
function corbaname.name(text)
  if text == "" then return nil, "an empty name names nothing" end
  local list, at = {}, 1
  repeat
    local one, stop, what = component(text, at)
    if not one then return nil, ("%s: at character %d of the name: %s"):format(text, stop, what) end
    list[#list + 1] = one
    at = stop + 1
  until stop > #text
  return list
end

local function escaped(part) return (part:gsub("[./\\]", "\\%0")) end

-- corbaname.text({ { id =, kind = } … }) -> as corbaname.name reads it
function corbaname.text(list)
  local parts = {}
  for i, c in ipairs(list) do
    parts[i] = escaped(c.id) .. ((c.kind ~= "" or c.id == "") and "." .. escaped(c.kind) or "")
  end
  return table.concat(parts, "/")
end

-- corbaname.parse(text) -> what corbaloc.parse gives of the context, and the name or nil | nil, message
function corbaname.parse(text)
  local scheme = text:match "^(%a+):"
  if not scheme or scheme:lower() ~= "corbaname" then return nil, "a corbaname begins with corbaname:" end
  local hash = text:find("#", 1, true)
  local context, err = corbaloc.addresses(text:sub(1, (hash or 0) - 1), #"corbaname:" + 1)
  if not context then return nil, err end
  if context.key == "" then context.key = "NameService" end
  if not hash or hash == #text then return context end
  local name
  name, err = corbaloc.unescape(text, hash + 1)
  if not name then return nil, (err:gsub("in a key", "in a corbaname")) end
  name, err = corbaname.name(name)
  if not name then return nil, err end
  return context, name
end

return corbaname
