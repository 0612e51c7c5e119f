--[[
mare.cli.help: reads the texts that --help prints. What the command line understands is written down there and nowhere else: man pages
(tools/man.lua) and completion (completion.lua) are made of what this file finds in them.

  help.read(text) -> {
    examples = { { line, says } … },                    before "usage:"
    usages   = { { line, says or nil } … },
    about    = { paragraph … },                         a line of its own in it begins with "\n  "
    options  = { { forms = { { name, argument or "" } … }, says } … },
    commands = { { name, says } … },                    of "Commands are:"
    exit     = paragraph or nil,
    pages    = { { "idl from", says or nil } … },       whose help the usage points to
  }

A line with two parts has two blanks or more between them; a line that begins further to the right goes on with the one before.
]]
local help = {}

local function parts(line)
  line = line:match("^%s*(.-)%s*$")
  local left, says = line:match("^(.-)%s%s+(%S.*)$")
  return left or line, says
end

-- "-a, --all" or "-D NAME[=TEXT]" -> the names, each with its argument.
local function forms(left)
  local list = {}
  for form in (left .. ", "):gmatch("(.-), ") do
    local name, argument = form:match("^(%-%S*)%s*(.*)$")
    if name then list[#list + 1] = { name, argument } end
  end
  return list
end

local function read_usage(text, line)
  local pointed = line:match("see mare (.-) %-%-help")
  local usage, says = parts((line:gsub("^usage:", "      ")))
  if says then says = says:gsub(",? ?see mare .- %-%-help", "") end
  if says == "" then says = nil end
  text.usages[#text.usages + 1] = { usage, says }
  if pointed then text.pages[#text.pages + 1] = { pointed, says } end
end

local function read_option(text, line)
  if line:find("^  %-") then
    local left, says = parts(line)
    text.options[#text.options + 1] = { forms = forms(left), says = says or "" }
  else
    local last = text.options[#text.options]
    last.says = last.says .. "\n" .. line:match("%S.*")
  end
end

-- A paragraph that is neither usage nor list. What follows "Exit codes:" stands alone.
local function read_paragraph(text, paragraph)
  local joined = paragraph:gsub("\n(%S)", " %1")
  local about, exit = joined:match("^(.-)%s*(Exit codes: .*)$")
  text.exit = exit or text.exit
  about = about or joined
  if about ~= "" then text.about[#text.about + 1] = about end
end

local function pair_of(line) return { parts(line) } end

function help.read(written)
  local text = { examples = {}, usages = {}, about = {}, options = {}, commands = {}, pages = {} }
  for paragraph in (written .. "\n\n"):gmatch("(%S.-)\n\n+") do
    local head = paragraph:match("^[^\n]*")
    local body = paragraph:sub(#head + 2)
    if #text.usages == 0 and not head:find "^usage:" then
      for line in paragraph:gmatch("[^\n]+") do table.insert(text.examples, pair_of(line)) end
    elseif head:find "^usage:" then
      for line in paragraph:gmatch("[^\n]+") do read_usage(text, line) end
    elseif head == "Options are:" then
      for line in body:gmatch("[^\n]+") do read_option(text, line) end
    elseif head == "Commands are:" then
      for line in body:gmatch("[^\n]+") do table.insert(text.commands, pair_of(line)) end
    else
      read_paragraph(text, paragraph)
    end
  end
  return text
end

--- All texts, by their pages: "mare", "run", "idl from" … printed(page) gives one, or nil: it can't be had here. -> texts, pages in their order
function help.all(printed)
  local texts, order = {}, {}
  local function add(page, says)
    local written = not texts[page] and printed(page)
    if not written then return end
    texts[page] = help.read(written)
    texts[page].says = says or texts[page].examples[1][2]
    order[#order + 1] = page
    for _, pointed in ipairs(texts[page].pages) do add(pointed[1], pointed[2]) end
  end
  add("mare")
  return texts, order
end

--- The words that may stand behind `mare page`: { { word, says } … }
function help.words(page, text)
  local found, seen = {}, {}
  local function add(words, says)
    for word in words:gmatch("[^|]+") do
      if word:find("^%l[%l-]*$") and not seen[word] then
        seen[word] = true
        found[#found + 1] = { word, says }
      end
    end
  end
  local prefix = page == "mare" and "mare " or "mare " .. page .. " "
  for _, usage in ipairs(text.usages) do
    local line, says = usage[1], usage[2] or ""
    for start in (line .. ", "):gmatch("(.-), ") do       -- "mare help [COMMAND], mare version"
      if start:sub(1, #prefix) == prefix then
        for alternative in (start:sub(#prefix + 1) .. " | "):gmatch("(.-) | ") do add(alternative:match("^%S*"), says) end
      end
    end
  end
  for _, command in ipairs(text.commands) do add(command[1], command[2]) end
  return found
end

return help
