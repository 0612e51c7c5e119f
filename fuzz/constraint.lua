-- Constraints of event filters (pure Lua): what is understood tells true or false of any event and never fails; what isn't names the place.
local grammar = require "mare.orb.services.events.grammar"

local any = { _anytype = { kind = "struct", id = "IDL:S:1.0", members = { { name = "a", type = { kind = "long" } },
                { name = "b", type = { kind = "sequence", element = { kind = "string" } } } } }, _anyval = { a = 3, b = { "x", "y" } } }
local structured = {
  header = { fixed_header = { event_type = { domain_name = "D", type_name = "T" }, event_name = "N" },
             variable_header = { { name = "p", value = 1 } } },
  filterable_data = { { name = "q", value = "text" }, { name = "r", value = any } }, remainder_of_body = any,
}

return function(data)
  local matches, err = grammar.compile(data)
  if not matches then
    assert(matches == nil and err:find "^at character %d+: .")
    return assert(tonumber(err:match "%d+") <= #data + 1)
  end
  assert(type(matches { any = any }) == "boolean")
  assert(type(matches { any = 1 }) == "boolean")
  assert(type(matches { structured = structured }) == "boolean")
end
