-- man.lua PROGRAM FOLDER: writes the man pages of PROGRAM (bin/mare) to FOLDER: mare.1, mare-run.1 … They say what its --help says, which
-- lua/mare/cli/help.lua reads. The laboratory isn't part of the program, so neither is its page.
-- The date is that of SOURCE_DATE_EPOCH, or else of CHANGELOG.md, so that the same sources give the same pages.
local program, folder = arg[1], arg[2]
local root = arg[0]:match("^(.*)/tools/") or "."
package.path = root .. "/lua/?.lua;" .. package.path
local help = require "mare.cli.help"

local function output(command)
  local pipe <close> = assert(io.popen(command))
  return pipe:read("a")
end

local function shell(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

local function printed(page)
  if page == "lab" then return nil end
  return output(shell(program) .. " " .. page:gsub("^mare$", "") .. " --help")
end

-- Characters that groff would take for something else.
local named = { ["\\"] = "\\e", ["-"] = "\\-", ["^"] = "\\(ha", ["~"] = "\\(ti", ["'"] = "\\(aq", ["`"] = "\\(ga", ['"'] = "\\(dq" }
local function plain(text) return (text:gsub('[\\%-^~\'`"]', named)) end

-- Running text, in short lines. A dot at the start of one would make it a request.
local function line(text)
  local lines = { "" }
  for word in text:gmatch("%S+") do
    word = plain(word)
    local last = lines[#lines]
    if last == "" then lines[#lines] = (word:find "^%." and "\\&" or "") .. word
    elseif #last + #word < 78 then lines[#lines] = last .. " " .. word
    else lines[#lines + 1] = (word:find "^%." and "\\&" or "") .. word end
  end
  return table.concat(lines, "\n")
end

-- A paragraph, of which some lines stand as they are.
local function paragraph(text)
  local own = {}
  for verbatim in text:gmatch("\n  ([^\n]*)") do own[#own + 1] = "\\&" .. plain(verbatim) end
  local running = line(text:match("^[^\n]*"))
  if #own == 0 then return running end
  return running .. "\n.PP\n.nf\n" .. table.concat(own, "\n") .. "\n.fi"
end

local function bold(text) return "\\fB" .. plain(text) .. "\\fR" end
local function italic(text) return "\\fI" .. plain(text) .. "\\fR" end

local function name_of(page) return page == "mare" and page or "mare-" .. page:gsub(" ", "-") end

-- "mare names ls [-r] [NAME]": what is typed as it stands is bold.
local function usage(text)
  return (text:gsub("%S+", function(word)
    if word:find("^%l[%l-]*$") or word:find("^%l[%l|]*$") then return bold(word) end
    return plain(word)
  end))
end

local function forms(option)
  local list = {}
  for i, form in ipairs(option.forms) do list[i] = bold(form[1]) .. (form[2] ~= "" and " " .. italic(form[2]) or "") end
  return table.concat(list, ", ")
end

local date = os.getenv("SOURCE_DATE_EPOCH") or output("stat -c %Y " .. shell(root .. "/CHANGELOG.md"))
local day = os.date("!%Y-%m-%d", math.tointeger(tonumber(date)))
local version = output(shell(program) .. " --version"):match("%S+ (%S+)")

local function page_of(page, text, pages)
  local out = {}
  local function put(...) for _, l in ipairs { ... } do out[#out + 1] = l end end
  put((".TH %s 1 %s \"mare %s\" \"mare\""):format(name_of(page):upper(), day, version), ".SH NAME", name_of(page) .. " \\- " .. plain(text.says))
  put ".SH SYNOPSIS"
  for i, u in ipairs(text.usages) do
    if i > 1 then put ".br" end
    put(usage(u[1]))
  end
  put ".SH DESCRIPTION"
  for i, u in ipairs(text.about) do
    if i > 1 then put ".PP" end
    put(paragraph(u))
  end
  local told = {}
  for _, u in ipairs(text.usages) do
    if u[2] then told[#told + 1] = u end
  end
  if #text.about == 0 and #told == 0 then put(line(text.says) .. ".") end
  for _, u in ipairs(told) do put(".TP", usage(u[1]), line(u[2])) end
  if #text.options > 0 then put ".SH OPTIONS" end
  for _, option in ipairs(text.options) do
    put(".TP", forms(option))
    for more in option.says:gmatch("[^\n]+") do put(line(more)) end
  end
  if text.exit then put(".SH \"EXIT STATUS\"", line(text.exit:gsub("^Exit codes: ", "", 1))) end
  put ".SH EXAMPLES"
  for _, example in ipairs(text.examples) do put(".TP", bold(example[1]), line(example[2])) end
  put ".SH \"SEE ALSO\""
  local others = {}
  for _, other in ipairs(pages) do
    if other ~= page and (page == "mare" or other == "mare" or other:find(page .. " ", 1, true) or page:find(other .. " ", 1, true)) then
      others[#others + 1] = ".BR " .. plain(name_of(other)) .. " (1)"
    end
  end
  put(table.concat(others, ",\n"))
  return table.concat(out, "\n") .. "\n"
end

local texts, pages = help.all(printed)
assert(#pages > 1, program .. " --help names no command")
for _, page in ipairs(pages) do
  local file <close> = assert(io.open(folder .. "/" .. name_of(page) .. ".1", "w"))
  assert(file:write(page_of(page, texts[page], pages)))
end
