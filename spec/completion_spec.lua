-- What is made of the texts that --help prints: man pages, and completion in each of the shells.
-- runs under: mare
-- needs: plain
local proc = require "spec.support.proc"

local root = os.getenv("MARE_ROOT") or "."
local told = root .. "/build/plain/told"
local here = { dir = root }

local function succeeds(command, options)
  local r = proc.run(command, options or here)
  assert.equal(0, r.code, r.out .. r.err)
  assert.equal("", r.err)
  return r.out
end

local function lines(text)
  local found = {}
  for line in text:gmatch("[^\n]+") do found[#found + 1] = line end
  table.sort(found)
  return found
end

-- What is offered behind each of these beginnings, whatever the shell; "*": a file of this folder is.
local cases = {
  { "mare na", "names" },
  { "mare names r", "resolve", "rm" },
  { "mare run --tr", "--trace", "--trace-size" },
  { "mare idl from --re", "--repository" },
  { "mare idl --re" },
  { "mare --he", "--heap-profile", "--help" },
  { "mare completion ", "bash", "fish", "zsh" },
  { "mare call --idl CMakeL", "CMakeLists.txt" },
  { "mare run CMakeL", "CMakeLists.txt" },
  { "mare run -w CMakeL" },
}

local function offers(completes)
  for _, case in ipairs(cases) do assert.same({ table.unpack(case, 2) }, lines(completes(case[1])), case[1]) end
end

describe("completion", function()
  it("is printed for three shells, and each mistake is told", function()
    for _, case in ipairs { { {}, "which shell?" }, { { "tcsh" }, "not for 'tcsh'" }, { { "bash", "zsh" }, "one shell at a time" },
                            { { "--hepl" }, "did you mean '--help'?" } } do
      local r = proc.mare_command { "completion", table.unpack(case[1]) }
      assert.equal(2, r.code)
      assert.truthy(r.err:find(case[2], 1, true), r.err)
      assert.equal("", r.out)
    end
  end)
  it("tells that it could not be written", function()
    local r = proc.run(("'%s' completion bash >/dev/full"):format(proc.bin))
    assert.equal(1, r.code)
    assert.equal("mare completion: No space left on device\n", r.err)
  end)
  it("works in bash", function()
    offers(function(line)
      return succeeds { "bash", "-c", [==[
        source "$1"
        read -ra COMP_WORDS <<<"$2"
        if [[ $2 == *' ' ]]; then COMP_WORDS+=(''); fi
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        _mare
        printf '%s\n' "${COMPREPLY[@]}"]==], "bash", told .. "/bash", line }
    end)
    assert.equal("complete -F _mare mare\n", succeeds { "bash", "-c", 'source "$1"; complete -p mare', "bash", told .. "/bash" })
  end)
  it("works in fish", function()
    local home = succeeds({ "mktemp", "-d" }):match("%S+")
    local ok, err = pcall(offers, function(line)
      local text = succeeds({ "fish", "--no-config", "-c", "source $argv[1]; complete -C $argv[2]", told .. "/fish", line },
        { dir = root, env = { HOME = home, XDG_CONFIG_HOME = false, XDG_DATA_HOME = false } })
      return (text:gsub("\t[^\n]*", ""))
    end)
    proc.run { "rm", "-rf", home }
    assert(ok, err)
  end)
  it("works in zsh", function()
    -- Instead of showing what they are given, the functions that _mare ends in print it.
    offers(function(line)
      return succeeds { "zsh", "-f", "-c", [==[
        compdef() { }
        _describe() {
          local -a list=("${(@P)argv[-1]}")
          list=("${(@)list%%:*}")
          print -l -- ${(M)list:#${PREFIX}*}
        }
        _files() { print -l -- ${PREFIX}*(N) }
        source $1
        words=(${=2})
        if [[ $2 == *' ' ]]; then words+=(''); fi
        CURRENT=${#words} PREFIX=${words[-1]}
        _mare || true]==], "zsh", told .. "/zsh", line }
    end)
  end)
end)

describe("man pages", function()
  local pages = lines(succeeds { "ls", told .. "/man" })

  it("are one for the program, and one for each command whose help it points to", function()
    local wanted, seen = { "mare.1" }, { lab = true }                 -- the laboratory isn't part of the program
    for page in (proc.mare_command({ "--help" }).out):gmatch("see mare ([%l ]-) %-%-help") do
      if not seen[page] then wanted[#wanted + 1] = "mare-" .. page:gsub(" ", "-") .. ".1" end
      seen[page] = true
    end
    table.sort(wanted)
    assert.is_true(#wanted > 10)
    assert.same(wanted, pages)
  end)
  it("name every option of the help", function()
    for _, page in ipairs(pages) do
      local command = {}
      for word in page:gsub("%.1$", ""):gsub("^mare%-?", ""):gmatch("%l+") do command[#command + 1] = word end
      command[#command + 1] = "--help"
      local file <close> = assert(io.open(told .. "/man/" .. page))
      local text = file:read("a"):gsub("\\%-", "-")
      for option in (proc.mare_command(command).out):gmatch("\n  (%-[%w-]+)") do
        assert.truthy(text:find("\\fB" .. option .. "\\fR", 1, true), page .. ": " .. option)
      end
    end
  end)
  it("are formatted without a warning", function()
    for _, check in ipairs { "mandoc -Tlint", "groff -ww -man -Tutf8 -z" } do
      local r = proc.run(("for p in '%s'/man/*.1; do %s \"$p\" 2>&1 || echo \"$p: $?\"; done"):format(told, check))
      assert.equal("", r.out)
    end
  end)
end)
