---@meta mare.orb.giop.ior
-- luacheck: ignore 212 241

---Object references. See docs/ior.md. A canonical reference is a string of bytes; two are the same if these are.
---@class mare.orb.iorlib
---@field TAG_IIOP integer
---@field TAG_MULTIPLE_COMPONENTS integer
---@field TAG_ORB_TYPE integer
---@field TAG_CODE_SETS integer
---@field TAG_POLICIES integer
---@field TAG_ALTERNATE_IIOP_ADDRESS integer
---@field TAG_SSL_SEC_TRANS integer
---@field TAG_OMNIORB_UNIX_TRANS integer
---@field null string the nil reference
local ior = {}

---@class mare.orb.Profile
---@field tag integer
---@field data? string its bytes; in a profile that is to be made: they are taken as they are
---@field error? string what is wrong with it
---@field minor? integer IIOP 1.minor
---@field host? string
---@field port? integer
---@field key? string
---@field components? { [1]: integer, [2]: string }[] tag and data

---@class mare.orb.Reference
---@field type_id string
---@field profiles mare.orb.Profile[]

---@param text string "IOR:…"
---@return string? canonical
---@return string? problem
function ior.destring(text) end

---@param canonical string
---@return string text "IOR:…"
function ior.stringify(canonical) end

---@param bytes string a reference in either byte order
---@return string? canonical
---@return string? problem
function ior.canonical(bytes) end

---@param canonical string
---@return mare.orb.Reference? reference
---@return string? problem
function ior.parse(canonical) end

---@param reference mare.orb.Reference
---@return string canonical
function ior.make(reference) end

---@param t { type_id: string, addresses: { [1]: string, [2]: integer }[], key: string, minor: integer?, components: table? }
---@return string canonical
function ior.iiop(t) end

---@param profile mare.orb.Profile
---@return { host: string, port: integer }[] addresses in the order in which to try them
function ior.addresses(profile) end

---@param profile mare.orb.Profile
---@return { host: string, path: string }[] sockets its Unix sockets, each with the name of its machine
function ior.unix_addresses(profile) end

---@param machine string
---@param path string
---@return { [1]: integer, [2]: string } component
function ior.unix_component(machine, path) end

---@param profile mare.orb.Profile
---@param tag integer
---@return string? data of the first such component
function ior.find(profile, tag) end

---@param tag integer
---@param data string
---@return any value what a component says; nil: it is unknown
---@return string? problem
function ior.component(tag, data) end

return ior
