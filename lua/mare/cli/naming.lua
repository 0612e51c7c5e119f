-- mare.cli.naming: what a naming service answered, in words, for the commands that ask one.
local corbaname = require "mare.orb.giop.corbaname"
local exception = require "mare.orb.exception"

local naming = {}

local NOT_FOUND = { missing_node = "%s: there is no '%s'", not_context = "%s: '%s' is no context", not_object = "%s: '%s' is a context, no object" }

local OTHERS = { AlreadyBound = "%s: there is such a name already; --replace binds it anew", NotEmpty = "%s: this context is not empty",
                 InvalidName = "%s: the service takes this for no name" }

--- What was raised when `name` was asked for.
function naming.words(err, name)
  local id = type(err) == "table" and err._repid and err._repid:match "^IDL:omg%.org/CosNaming/[%a]+/(%a+):1%.0$"
  if id == "NotFound" then
    local at = err.rest_of_name[1] and corbaname.text { err.rest_of_name[1] } or name
    return NOT_FOUND[err.why]:format(name, at)
  end
  if id == "CannotProceed" then
    return ("%s: another service doesn't answer; ask it for '%s' yourself: %s"):format(name, corbaname.text(err.rest_of_name), tostring(err.cxt))
  end
  return id and OTHERS[id] and OTHERS[id]:format(name) or tostring(err)
end

--- What was raised when the names of a context were asked for, which another service may have.
function naming.unreachable(err, name)
  if exception.is(err, "IDL:omg.org/CORBA/OBJECT_NOT_EXIST:1.0") then return ("%s: its context is no more: %s"):format(name, tostring(err)) end
  if exception.is_system(err) then return ("%s: another service doesn't answer: %s"):format(name, tostring(err)) end
  return naming.words(err, name)
end

--- Is the text of a reference wrong in itself? Else it was asked for, and that failed.
function naming.is_mistake(err)
  return not exception.is(err) or exception.is(err, "IDL:omg.org/CORBA/BAD_PARAM:1.0") or exception.is(err, "IDL:omg.org/CORBA/ORB/InvalidName:1.0")
end

return naming
