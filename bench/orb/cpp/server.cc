// The Sender of bench.idl over omniORB. Prints its reference, serves until its standard input ends.
#include <cstdio>
#include <unistd.h>
#include <iostream>
#include "bench.hh"

class Sender_i : public POA_ORBTests::Sender {
public:
  void send_void() {}
  void send_objref(CORBA::Object_ptr) {}
  void send_objrefs(const ORBTests::objrefSeq &) {}
  void send_structs(const ORBTests::structSeq &) {}
  void raise_empty() { throw ORBTests::EmptyExcept(); }
  char *echo_string(const char *value) { return CORBA::string_dup(value); }
  ORBTests::octetSeq *echo_octets(const ORBTests::octetSeq &value) { return new ORBTests::octetSeq(value); }
};

int main(int argc, char **argv)
{
  CORBA::ORB_var orb = CORBA::ORB_init(argc, argv);
  CORBA::Object_var object = orb->resolve_initial_references("RootPOA");
  PortableServer::POA_var poa = PortableServer::POA::_narrow(object);
  Sender_i *servant = new Sender_i;
  PortableServer::ObjectId_var id = poa->activate_object(servant);
  object = poa->id_to_reference(id);
  PortableServer::POAManager_var manager = poa->the_POAManager();
  manager->activate();
  CORBA::String_var text = orb->object_to_string(object);
  std::cout << text.in() << std::endl;
  while (getchar() != EOF) {}
  _exit(0);
}
