-- mare.base.say: say(text), what mare's own modules have to tell of a program that nobody asked for: in the log, if that is in use (mare.log), else
-- on stderr. A text may end with a traceback.
local says = require "mare.log.core".says
return function(text)
  if not says(text) then io.stderr:write(text, "\n") end
end
