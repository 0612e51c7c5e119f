-- Sockets for OiL's threads: those of mare let others run while they wait.
return require "mare.socket"
