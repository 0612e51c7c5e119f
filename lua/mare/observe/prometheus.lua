-- mare.observe.prometheus: what is observed as text in Prometheus's format 0.0.4.
local prometheus = {}

prometheus.type = "text/plain; version=0.0.4; charset=utf-8"

local function escape(s) return (s:gsub('[\\"\n]', { ["\\"] = "\\\\", ['"'] = '\\"', ["\n"] = "\\n" })) end

local function number(n)
  if n ~= n then return "NaN" end
  if n - n ~= 0 then return n > 0 and "+Inf" or "-Inf" end
  if math.type(n) == "integer" then return ("%d"):format(n) end
  local short = ("%.15g"):format(n)
  return tonumber(short) == n and short or ("%.17g"):format(n)
end

-- One family: its help, its type, and a sample for each { value, label = text }. What the program doesn't know is left out.
local function family(out, name, kind, help, samples)
  if type(samples) ~= "table" then samples = { { samples } } end
  if samples[1] == nil or samples[1][1] == nil then return end
  out[#out + 1] = ("# HELP %s %s\n# TYPE %s %s\n"):format(name, help, name, kind)
  for _, sample in ipairs(samples) do
    local labels = {}
    for label, text in pairs(sample) do
      if type(label) == "string" then labels[#labels + 1] = ('%s="%s"'):format(label, escape(tostring(text))) end
    end
    table.sort(labels)
    out[#out + 1] = ("%s%s %s\n"):format(name, #labels > 0 and "{" .. table.concat(labels, ",") .. "}" or "", number(sample[1]))
  end
end

local states = { "running", "ready", "waiting", "failed" }

local function by_state(processes)
  local samples = {}
  for i, state in ipairs(states) do samples[i] = { processes[state] or 0, state = state } end
  return samples
end

local function by_worker(workers, field)
  local samples = {}
  for i, w in ipairs(workers) do samples[i] = { w[field], worker = w.id } end
  return samples
end

local function by_dict(dicts, field)
  local samples = {}
  for i, d in ipairs(dicts) do samples[i] = { d[field], name = d.name } end
  return samples
end

function prometheus.text(observed)
  local t, own, out = observed.totals(), observed.resources(), {}
  local function gauge(name, help, samples) family(out, name, "gauge", help, samples) end
  local function counter(name, help, samples) family(out, name, "counter", help, samples) end
  local program = observed.program()
  gauge("mare_info", "The version of mare.", { { 1, version = program.mare } })
  gauge("mare_processes", "Processes by what they do; failed ones are listed as long as somebody has their handle.", by_state(observed.states()))
  counter("mare_processes_started_total", "Processes that were spawned.", t.spawned)
  counter("mare_processes_ended_total", "Processes that have ended.", t.ended)
  counter("mare_failures_total", "Failures of processes and fibers that nobody waited for.", t.failures)
  counter("mare_messages_total", "Messages that were sent on channels.", t.messages)
  counter("mare_dispatches_total", "Turns that fibers were given.", t.dispatches)
  counter("mare_steals_total", "Fibers that a worker took from another one.", t.steals)
  gauge("mare_workers", "Workers: how many threads may run processes at a time.", program.workers)
  counter("mare_worker_dispatches_total", "Turns that a worker gave.", by_worker(t.workers, "dispatches"))
  counter("mare_worker_busy_seconds_total", "Time in which a worker ran processes.", by_worker(t.workers, "busy"))
  local dicts = observed.dicts()
  gauge("mare_dict_entries", "Entries of dictionaries that have names.", by_dict(dicts, "entries"))
  gauge("mare_dict_bytes", "Bytes of their entries.", by_dict(dicts, "bytes"))
  counter("mare_dict_hits_total", "Keys that were asked for and found.", by_dict(dicts, "hits"))
  counter("mare_dict_misses_total", "Keys that were asked for and not found.", by_dict(dicts, "misses"))
  counter("mare_dict_evicted_total", "Entries that had to go because of a limit.", by_dict(dicts, "evicted"))
  gauge("mare_heap_bytes", "Memory in use by the heaps of processes.", t.heap)
  counter("process_cpu_seconds_total", "User and system CPU time of the program.", own.cpu)
  gauge("process_resident_memory_bytes", "Resident memory of the program.", own.resident)
  gauge("process_virtual_memory_bytes", "Virtual memory of the program.", own.virtual)
  gauge("process_open_fds", "Open descriptors of the program.", own.descriptors)
  gauge("process_max_fds", "How many descriptors the program may have.", own.most_descriptors)
  gauge("process_start_time_seconds", "When the program began, in seconds since 1970.", program.started)
  return table.concat(out)
end

return prometheus
