-- mare.cli.unknown: what is said of an option or command that there isn't, and of other mistakes on a command line.
local near = require "mare.orb.near"

local unknown = {}

local function say(format, word, names)
  local meant = near(word, names)
  return format:format(word) .. (meant and "; did you mean " .. meant .. "?" or "")
end

--- A letter behind one dash is near to every other: only words are compared.
function unknown.option(word, names)
  local name = word:match("^[^=]*")
  return say("unrecognized option '%s'", name, #name > 2 and names or {})
end

function unknown.command(word, names) return say("no command is called '%s'", word, names) end

--- Says what is wrong, and the usage if it is given; the exit code.
function unknown.mistake(command, usage, text)
  io.stderr:write("mare ", command, ": ", text, "\n", usage and usage:match("\n(usage:.-\n)\n") or "", "Try 'mare ", command, " --help'.\n")
  return 2
end

return unknown
