-- What the peers need to speak TLS with certificates on both sides, each in its own options.
--
--   local tls = require "spec.orb_peers.tls".new()        certificates, and key stores for Java where there is a keytool
--   tls:words("mare", "server")                             options for the command line
--   tls:properties("client")                                JacORB's, for the virtual machine
--   tls:remove()
local certificates = require "spec.support.certificates"

local tls = {}
tls.__index = tls

local STORES = [[
set -e
cd "$1"
cat server.pem server.key > server-both.pem
cat peer.pem peer.key > client-both.pem
command -v keytool || exit 0
for who in server client; do
  openssl pkcs12 -export -in $who-both.pem -name me -passout pass:secret -out $who.p12
  keytool -importcert -noprompt -alias ca -file ca.pem -keystore $who.p12 -storetype PKCS12 -storepass secret
done
]]

function tls.new()
  local c = certificates()
  local script = c.folder .. "/stores.sh"
  local file = assert(io.open(script, "w"))
  file:write(STORES)
  file:close()
  assert(os.execute(("sh '%s' '%s' > '%s/log' 2>&1"):format(script, c.folder, c.folder)))
  return setmetatable({ certificates = c, folder = c.folder }, tls)
end

function tls:words(name, role)
  local ca, both = self.certificates.ca, ("%s/%s-both.pem"):format(self.folder, role)
  if name == "JacORB" then return {} end
  local list = { "-ORBsslCAFile", ca, "-ORBsslKeyFile", both, "-ORBsslVerifyMode", "peer,fail", "-ORBendPoint", "giop:ssl:127.0.0.1:" }
  -- omniORB reads no key without a password, whatever it is where the key has none.
  if name == "omniORB" then table.move({ "-ORBsslKeyPassword", "none" }, 1, 2, #list + 1, list) end
  return list
end

-- 20: the other side's certificate is verified, 40: ours is shown, or demanded of clients.
function tls:properties(role)
  local list = {}
  for name, value in pairs {
    ["jacorb.security.support_ssl"] = "on", ["jacorb.security.keystore"] = ("%s/%s.p12"):format(self.folder, role),
    ["jacorb.security.keystore_type"] = "JKS", ["jacorb.security.keystore_password"] = "secret",
    ["jacorb.security.jsse.trustees_from_ks"] = "on",
    ["jacorb.ssl.socket_factory"] = "org.jacorb.security.ssl.sun_jsse.SSLSocketFactory",
    ["jacorb.ssl.server_socket_factory"] = "org.jacorb.security.ssl.sun_jsse.SSLServerSocketFactory",
    ["jacorb.security.ssl.server.supported_options"] = "60", ["jacorb.security.ssl.server.required_options"] = "40",
    ["jacorb.security.sas.contextClass"] = "org.jacorb.security.sas.GssUpContext",
    ["org.omg.PortableInterceptor.ORBInitializerClass.sas"] = "org.jacorb.security.sas.SASInitializer",
    ["jacorb.security.ssl.client.supported_options"] = "60", ["jacorb.security.ssl.client.required_options"] = "20",
  } do list[#list + 1] = "-D" .. name .. "=" .. value end
  return list
end

function tls:remove() self.certificates.remove() end

return tls
