// A POA whose objects may be called, and may call, over the connections that others opened.
#pragma once
#include "bidir.hh"

inline PortableServer::POA_var both_ways(CORBA::ORB_ptr orb)
{
  CORBA::Object_var obj = orb->resolve_initial_references("RootPOA");
  PortableServer::POA_var root = PortableServer::POA::_narrow(obj);
  CORBA::PolicyList policies;
  policies.length(1);
  CORBA::Any any;
  any <<= BiDirPolicy::BOTH;
  policies[0] = orb->create_policy(BiDirPolicy::BIDIRECTIONAL_POLICY_TYPE, any);
  PortableServer::POAManager_var manager = root->the_POAManager();
  PortableServer::POA_var poa = root->create_POA("both", manager, policies);
  manager->activate();
  return poa;
}
