// A Talker over omniORB. Prints its reference, serves until its standard input ends.
#include "common.h"
#include <cstdio>
#include <string>

class Talker_i : public virtual POA_Both::Talker {
  Both::Listener_var kept;
public:
  char *talk(Both::Listener_ptr whom, const char *what) { return whom->heard(what); }
  void keep(Both::Listener_ptr whom) { kept = Both::Listener::_duplicate(whom); }
  CORBA::ULong chatter(CORBA::ULong times)
  {
    CORBA::ULong good = 0;
    for (CORBA::ULong i = 0; i < times; i++) {
      std::string word = "word " + std::to_string(i);
      CORBA::String_var answer = kept->heard(word.c_str());
      good += std::string(answer) == "heard " + word;
    }
    return good;
  }
  char *provoke(CORBA::ULong milliseconds)
  {
    try {
      kept->pause(milliseconds);
      return CORBA::string_dup("nothing");
    } catch (CORBA::SystemException &e) {
      return CORBA::string_dup(e._name());
    }
  }
};

int main(int argc, char **argv)
{
  CORBA::ORB_var orb = CORBA::ORB_init(argc, argv);
  PortableServer::POA_var poa = both_ways(orb);
  PortableServer::Servant_var<Talker_i> talker = new Talker_i;
  PortableServer::ObjectId_var id = poa->activate_object(talker);
  CORBA::Object_var ref = poa->id_to_reference(id);
  CORBA::String_var text = orb->object_to_string(ref);
  puts(text);
  fflush(stdout);
  while (getchar() != EOF) {}
  return 0;
}
