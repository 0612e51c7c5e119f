// client REFERENCE THREADS TIMES: a Listener over omniORB; calls the Talker, which calls back. Prints what came of it.
#include "common.h"
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>
#include <atomic>
#include <chrono>
#include <unistd.h>

static std::atomic<int> heard;

class Listener_i : public virtual POA_Both::Listener {
public:
  char *heard(const char *what) { ::heard++; return CORBA::string_dup(("heard " + std::string(what)).c_str()); }
  void pause(CORBA::ULong milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }
};

int main(int argc, char **argv)
{
  try {
    CORBA::ORB_var orb = CORBA::ORB_init(argc, argv);
    PortableServer::POA_var poa = both_ways(orb);
    PortableServer::Servant_var<Listener_i> listener = new Listener_i;
    PortableServer::ObjectId_var id = poa->activate_object(listener);
    CORBA::Object_var obj = poa->id_to_reference(id);
    Both::Listener_var me = Both::Listener::_narrow(obj);
    obj = orb->string_to_object(argv[1]);
    Both::Talker_var talker = Both::Talker::_narrow(obj);
    int threads = atoi(argv[2]), times = atoi(argv[3]);
    CORBA::String_var answer = talker->talk(me, "one");
    printf("talk %s\n", (const char *)answer);
    talker->keep(me);
    std::atomic<int> good{0};
    std::vector<std::thread> all;
    for (int t = 0; t < threads; t++)
      all.emplace_back([&] {
        try {
          good += talker->chatter(times);
        } catch (CORBA::SystemException &e) { printf("chatter %s\n", e._name()); }
      });
    for (auto &t : all) t.join();
    printf("chatter %d of %d, heard %d\n", (int)good, threads * times, (int)heard);
    answer = talker->provoke(50);
    printf("provoke %s\n", (const char *)answer);
    fflush(stdout);
    _exit(0);
  } catch (CORBA::SystemException &e) {
    printf("failed %s %lu\n", e._name(), (unsigned long)e.minor());
    return 1;
  }
}
