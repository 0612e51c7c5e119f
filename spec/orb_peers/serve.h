// What omniORB's servers have in common: the root adapter is activated, the reference that `make` gives is printed, and all ends with standard input.
#pragma once
#include <cstdio>
#include <iostream>
#include <omniORB4/CORBA.h>

template <class Make> int serve(int argc, char **argv, Make make)
{
  try {
    CORBA::ORB_var orb = CORBA::ORB_init(argc, argv);
    CORBA::Object_var object = orb->resolve_initial_references("RootPOA");
    PortableServer::POA_var root = PortableServer::POA::_narrow(object);
    object = make(orb.in(), root.in());
    PortableServer::POAManager_var manager = root->the_POAManager();
    manager->activate();
    CORBA::String_var text = orb->object_to_string(object);
    std::cout << text.in() << std::endl;
    while (getchar() != EOF) {}
    orb->shutdown(true);
    orb->destroy();
    return 0;
  } catch (CORBA::SystemException &e) {
    std::cerr << "server: " << e._name() << " " << e.NP_minorString() << std::endl;
    return 1;
  }
}
