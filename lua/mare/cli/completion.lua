--[[
completion: `mare completion`, the script by which a shell completes mare's commands and options. It is made of what --help prints (help.lua), so this
program runs itself for each text; what doesn't answer (the laboratory, where it isn't) is left out.

Each page of help becomes a state of the script: the words that may come first, the options, and of the options with an argument those that
take a file.
]]
local help = require "mare.cli.help"
local subprocess = require "mare.subprocess"
local unknown = require "mare.cli.unknown"

local usage = [==[
  source <(mare completion bash)          completes mare's commands and options in this shell

usage: mare completion bash|zsh|fish      prints the script for that shell

To have it in each new shell:
  bash   mare completion bash >~/.local/share/bash-completion/completions/mare
  zsh    mare completion zsh >_mare, in a folder of $fpath, before compinit
  fish   mare completion fish >~/.config/fish/completions/mare.fish

Exit codes: 0, 2 for a mistake on the command line.
]==]

local function printed(page)
  local command = { "/proc/self/exe" }
  for word in page:gsub("^mare$", ""):gmatch("%S+") do command[#command + 1] = word end
  command[#command + 1] = "--help"
  local r = subprocess.run(command)
  return r and r.code == 0 and r.out or nil
end

-- The first sentence, or as much as fits into a line.
local function brief(says)
  local text = says:match("^[^\n]*"):match("^(.-)[;.] ") or says:match("^[^\n]*")
  if #text > 70 then text = text:sub(1, 67):gsub("%s*%S*$", "") .. "..." end
  return text
end

local function takes_file(argument) return argument:find "FILE" or argument:find "DIR" end

-- "as for mare run" has no arguments: they stand in that other text.
local function complete_form(texts, option, form)
  local other = option.says:match("^as for mare (%l+)") or option.says:find "^as for mare" and "mare"
  if not other then return form[2], option.says end
  for _, o in ipairs(texts[other].options) do
    for _, f in ipairs(o.forms) do
      if f[1] == form[1] then return f[2], o.says end
    end
  end
  return form[2], option.says
end

-- { page, words = { { word, says } … }, options = { { name, argument, says } … } } of each page: those with two words first, mare's own last.
local function states()
  local texts, order = help.all(printed)
  local list = {}
  for _, page in ipairs(order) do
    local state, seen = { page = page, words = help.words(page, texts[page]), options = {} }, {}
    for _, option in ipairs(texts[page].options) do
      for _, form in ipairs(option.forms) do
        local argument, says = complete_form(texts, option, form)
        if #form[1] > 1 and form[1] ~= "--" and not form[1]:find "^%-ORB" and not seen[form[1]] then
          seen[form[1]] = true
          table.insert(state.options, { form[1], argument, brief(says) })
        end
      end
    end
    for _, word in ipairs(state.words) do word[2] = brief(word[2]) end
    table.insert(list, page:find " " and 1 or #list + 1, state)
  end
  for i, state in ipairs(list) do
    if state.page == "mare" then table.insert(list, table.remove(list, i)) break end
  end
  return list
end

local function quoted(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

-- The names of a state's options for which f is true, between blanks.
local function names(state, f)
  local list = {}
  for _, o in ipairs(state.options) do
    if f(o) then list[#list + 1] = o[1] end
  end
  return table.concat(list, " ")
end

local function any() return true end
local function with_file(o) return takes_file(o[2]) end
local function with_other(o) return o[2] ~= "" and not takes_file(o[2]) end

-- The pattern for the first two words of the command line, by which bash and zsh know the page; and how many words it has.
local function pattern(page)
  if page == "mare" then return "*", 0 end
  if page:find " " then return quoted(page), 2 end
  return quoted(page .. " ") .. "*", 1
end

local shells = {}

local BASH = [==[
# Completion of mare for bash, made by `mare completion bash`.
_mare() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} first=1 words= options= files= other=
  if [[ $cur == = ]]; then cur=; elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi
  case "${COMP_WORDS[1]} ${COMP_WORDS[2]}" in
%s  esac
  COMPREPLY=()
  if [[ " $other " == *" $prev "* ]]; then
    return
  elif [[ " $files " != *" $prev "* ]]; then
    if [[ $cur == -* ]]; then
      mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
      return
    fi
    if ((COMP_CWORD == first)); then mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur"); fi
  fi
  if ((${#COMPREPLY[@]} == 0)); then
    mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    compopt -o filenames 2>/dev/null
  fi
}
complete -F _mare mare
]==]

function shells.bash(list)
  local cases = {}
  for i, s in ipairs(list) do
    local words = {}
    for k, word in ipairs(s.words) do words[k] = word[1] end
    local known, depth = pattern(s.page)
    cases[i] = ("    %s) first=%d words=%s\n      options=%s\n      files=%s other=%s ;;\n"):format(known, depth + 1,
      quoted(table.concat(words, " ")), quoted(names(s, any)), quoted(names(s, with_file)), quoted(names(s, with_other)))
  end
  return BASH:format(table.concat(cases))
end

local ZSH = [==[
#compdef mare
# Completion of mare for zsh, made by `mare completion zsh`.
_mare() {
  local -a subs options files other
  local first=2
  case "${words[2]} ${words[3]}" in
%s  esac
  local prev=${words[CURRENT-1]}
  if (( ${other[(Ie)$prev]} )); then
    return 1
  elif (( ${files[(Ie)$prev]} )); then
    _files
  elif [[ $PREFIX == -* ]]; then
    _describe -o option options
  elif (( CURRENT == first && ${#subs} )); then
    _describe command subs || _files
  else
    _files
  fi
}
if [[ ${funcstack[1]} == _mare ]]; then _mare "$@"; else compdef _mare mare; fi
]==]

local function described(pairs_of, says)
  local out = {}
  for i, p in ipairs(pairs_of) do out[i] = quoted(p[1]:gsub(":", "\\:") .. (p[says] ~= "" and ":" .. p[says] or "")) end
  return table.concat(out, " ")
end

function shells.zsh(list)
  local cases = {}
  for i, s in ipairs(list) do
    local known, depth = pattern(s.page)
    cases[i] = ("    %s) first=%d\n      subs=(%s)\n      options=(%s)\n      files=(%s) other=(%s) ;;\n"):format(known, depth + 2,
      described(s.words, 2), described(s.options, 3), names(s, with_file), names(s, with_other))
  end
  return ZSH:format(table.concat(cases))
end

local FISH = [==[
# Completion of mare for fish, made by `mare completion fish`.
function __mare_page -d "the command whose options are asked for: 'mare', 'run', 'idl from'"
  set -l words (commandline -opc)
  switch "$words[2] $words[3]"
%s  end
end
function __mare_at -a page first -d "is the next word that page's first?"
  test (__mare_page) = $page; and test (count (commandline -opc)) -eq $first
end
]==]

-- In fish only these two characters mean something between single quotes.
local function fish_quoted(text) return "'" .. text:gsub("[\\']", "\\%0") .. "'" end

local function fish_option(page, o)
  local name, letter = o[1]:match("^%-%-(.+)$"), o[1]:match("^%-(%a)$")
  local takes = takes_file(o[2]) and " -r -F" or o[2] ~= "" and " -x" or ""
  return ("complete -c mare -n %s %s%s -d %s\n"):format(fish_quoted("test (__mare_page) = " .. fish_quoted(page)),
    name and "-l " .. name or letter and "-s " .. letter, takes, fish_quoted(o[3]))
end

function shells.fish(list)
  local cases, lines = {}, {}
  for i, s in ipairs(list) do
    local _, depth = pattern(s.page)
    cases[i] = ("    case %s\n      echo %s\n"):format(
      depth == 0 and "'*'" or fish_quoted(s.page .. (depth == 1 and " *" or "")), fish_quoted(s.page))
    for _, word in ipairs(s.words) do
      lines[#lines + 1] = ("complete -c mare -n %s%s -a %s -d %s\n"):format(     -- or a script's name, behind mare alone
        fish_quoted(("__mare_at %s %d"):format(fish_quoted(s.page), depth + 1)), depth > 0 and " -f" or "", word[1], fish_quoted(word[2]))
    end
    for _, o in ipairs(s.options) do lines[#lines + 1] = fish_option(s.page, o) end
  end
  return FISH:format(table.concat(cases)) .. table.concat(lines)
end

return function(...)
  local shell, more = ...
  if shell == "--help" or shell == "-h" then
    io.stdout:write(usage)
    return 0
  end
  if not shell then return unknown.mistake("completion", usage, "which shell?") end
  if shell:sub(1, 1) == "-" then return unknown.mistake("completion", usage, unknown.option(shell, { "--help" })) end
  if not shells[shell] then return unknown.mistake("completion", usage, ("there is one for bash, zsh and fish, not for '%s'"):format(shell)) end
  if more then return unknown.mistake("completion", usage, "one shell at a time") end
  local written, message = io.stdout:write(shells[shell](states()))
  if written then written, message = io.stdout:flush() end
  if not written then
    io.stderr:write("mare completion: ", message, "\n")
    return 1
  end
  return 0
end
