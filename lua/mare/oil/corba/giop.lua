--[[
mare.oil.corba.giop: oil.corba.giop, as far as programs ask it: repository ids of system exceptions by their names, and what a reference is made of.
]]
local exception = require "mare.orb.exception"
local idl = require "mare.oil.corba.idl"

local giop = { SystemExceptionIDs = {} }

for _, name in ipairs(exception.names) do giop.SystemExceptionIDs[name] = "IDL:omg.org/CORBA/" .. name .. ":1.0" end

giop.TaggedProfile = idl.struct { name = "TaggedProfile", repID = "IDL:omg.org/IOP/TaggedProfile:1.0",
                                  { name = "tag", type = idl.ulong }, { name = "profile_data", type = idl.OctetSeq } }
giop.IOR = idl.struct { name = "IOR", repID = "IDL:omg.org/IOP/IOR:1.0",
                        { name = "type_id", type = idl.string }, { name = "profiles", type = idl.sequence { giop.TaggedProfile } } }

return giop
