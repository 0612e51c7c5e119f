-- certificates: made by the openssl program for a test, in a folder that is removed at its end.
--
--   local c = require "spec.support.certificates"()     a table of file names: ca, cert, key (for localhost, 127.0.0.1), other_ca,
--   expired, client_cert, client_key, peer_cert (one that both calls and serves), chain …
--   c.remove()
local temporary = require "spec.support.temporary"

local COMMANDS = [[
set -e
cd "$1"
authority() {
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout $1.key -out $1.pem -days 3650 -subj "/CN=$2"
}
# certificate NAME SUBJECT ALTERNATIVES OPTIONS…
certificate() {
  name=$1 subject=$2 alternatives=$3; shift 3
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout $name.key -out $name.csr -subj "/CN=$subject"
  printf '%s\n' "$alternatives" > $name.ext
  openssl x509 -req -in $name.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out $name.pem -extfile $name.ext "$@"
}
authority ca "Test authority"
authority other "Another authority"
certificate server localhost "subjectAltName=DNS:localhost,DNS:*.example.org,IP:127.0.0.1" -days 30
certificate client "client one" "extendedKeyUsage=clientAuth" -days 30
certificate peer "a peer" "subjectAltName=DNS:localhost,IP:127.0.0.1" -days 30
certificate expired localhost "subjectAltName=DNS:localhost,IP:127.0.0.1" -days -1
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout self.key -out self.pem -days 30 -subj "/CN=localhost" \
  -addext "subjectAltName=DNS:localhost,IP:127.0.0.1"
cat server.pem ca.pem > chain.pem
]]

return function()
  local folder = temporary()
  os.remove(folder)
  local script = folder .. ".sh"
  local file = assert(io.open(script, "w"))
  file:write(COMMANDS)
  file:close()
  assert(os.execute(("mkdir '%s' && sh '%s' '%s' > '%s/log' 2>&1 || { cat '%s/log' >&2; false; }"):format(folder, script, folder, folder, folder)))
  os.remove(script)
  local c = { folder = folder }
  for name, path in pairs { ca = "ca.pem", other_ca = "other.pem", cert = "server.pem", key = "server.key", client_cert = "client.pem",
                            client_key = "client.key", peer_cert = "peer.pem", peer_key = "peer.key", expired = "expired.pem",
                            expired_key = "expired.key", self = "self.pem", self_key = "self.key", chain = "chain.pem" } do
    c[name] = folder .. "/" .. path
  end
  function c.remove() os.execute("rm -rf '" .. folder .. "'") end
  function c.text(name)
    local f <close> = assert(io.open(c[name]))
    return f:read("a")
  end
  return c
end
