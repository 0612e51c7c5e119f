-- idl: the IDL compiler.
--
--   local idl = require "mare.orb.idl"
--   local repo = idl.repository()
--   local definitions, problems = repo:load('interface Hello { string say(in string who); };', { name = "hello.idl" })
--   if not definitions then error(tostring(problems)) end          -- hello.idl:1:11: …
--   repo:lookup("Hello").id                                        -- IDL:Hello:1.0
--
-- Text becomes tokens (lexer, preprocessor with macros and condition), tokens become definitions (parser with tokens, expressions, types,
-- interfaces, values; checker keeps scopes, names and ids; constant computes), a repository holds them. See docs/idl.md.
local repository = require "mare.orb.idl.repository"

local idl = { basic = require "mare.orb.idl.basic" }

-- An empty repository; it knows CORBA::Object, CORBA::ValueBase and CORBA::TypeCode.
function idl.repository() return repository.new() end

return idl
