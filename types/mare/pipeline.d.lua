---@meta mare.pipeline
-- luacheck: ignore 212 241

---Stages that items go through, each with processes of its own.
---@class mare.pipelinelib
local pipeline = {}

---@class mare.pipeline.stage
---@field run fun(item: any, emit: fun(value: any), held?: any): any gives the next stage's item; nil: none
---@field processes? integer 1 by default
---@field capacity? integer items that wait behind it, 16 by default
---@field name? string
---@field on_error? "stop"|"skip"
---@field init? fun(): any gives what `run` gets as its third argument
---@field close? fun(held: any)
---@field memory? number|mare.budget as in spawn
---@field priority? string as in spawn

---@class mare.pipeline.plan
---@field [integer] mare.pipeline.stage|fun(item: any, emit: fun(value: any)): any
---@field ordered? boolean true by default
---@field on_error? "stop"|"skip"
---@field on_skip? fun(error: any, item: any, stage: integer)

---@alias mare.pipeline.source any[]|mare.channel|fun(): any

---@param stages mare.pipeline.plan
---@return mare.pipeline
---@nodiscard
function pipeline.new(stages) end

---A source: the lines of a file.
---@param path string
---@return fun(): string?
---@nodiscard
function pipeline.lines(path) end

---@class mare.pipeline
local object = {}

---Starts it.
---@param source mare.pipeline.source
---@return mare.pipeline.run
function object:run(source) end

---@param source mare.pipeline.source
---@return any[] list what comes out
function object:list(source) end

---`for item in p:each(source) do`
---@param source mare.pipeline.source
---@return fun(run: mare.pipeline.run): any iterator
---@return mare.pipeline.run run
---@return nil
---@return mare.pipeline.run closed at the end of the loop
function object:each(source) end

---A pipeline at work. To be closed: its processes end with its block. Raises an error object of kind `"pipeline"` when a stage fails.
---@class mare.pipeline.run
local run = {}

---@return any item nil at the end
function run:receive() end

---@return fun(run: mare.pipeline.run): any iterator
---@return mare.pipeline.run run
function run:each() end

---@return any[] list the rest
function run:list() end

---@return integer count of the rest
function run:wait() end

---@return { name: string, processes: integer, items: integer, skipped: integer, busy: number, starved: number, blocked: number, queued: integer }[]
function run:statistics() end

function run:stop() end

return pipeline
