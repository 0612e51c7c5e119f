// Times calls of bench.idl's Sender over omniORB.
//   client REFERENCE refs=FILE samples=30 calls=100 warm=10 WORK…     a line "WORK ms ms …" each: what `calls` calls took, `samples` times
//   client REFERENCE load=SECONDS at=TIME                              calls send_void from that time on, prints how many calls were answered
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <thread>
#include <vector>
#include <unistd.h>
#include "bench.hh"

using namespace ORBTests;
typedef std::chrono::steady_clock Clock;

static std::map<std::string, std::string> options;
static std::vector<std::string> works;

static int number(const char *name, int usual) { return options.count(name) ? std::stoi(options[name]) : usual; }

static structSeq structs(CORBA::ULong n)
{
  structSeq list;
  list.length(n);
  for (CORBA::ULong k = 0; k < n; k++) {
    FullStruct &s = list[k];
    s.ushort_value = 1234; s.string_value = "a string value"; s.octet_value = 200; s.short_value = -1234; s.long_value = -123456;
    s.double_value = 3.14159; s.char_value = 'c'; s.float_value = 2.5f; s.enum_value = ENUM_C; s.boolean_value = true;
    s.ulong_value = 123456;
  }
  return list;
}

static objrefSeq references(CORBA::ORB_ptr orb)
{
  objrefSeq list;
  std::ifstream file(options["refs"]);
  std::string line;
  while (std::getline(file, line)) {
    list.length(list.length() + 1);
    list[list.length() - 1] = orb->string_to_object(line.c_str());
  }
  return list;
}

static std::map<std::string, std::function<void()>> make_works(CORBA::ORB_ptr orb, Sender_ptr sender)
{
  std::map<std::string, std::function<void()>> all;
  all["send_void"] = [=] { sender->send_void(); };
  all["raise_empty"] = [=] { try { sender->raise_empty(); abort(); } catch (const EmptyExcept &) {} };
  objrefSeq refs = references(orb);
  all["send_objref"] = [=] { sender->send_objref(refs[0]); };
  all["send_objrefs"] = [=] { sender->send_objrefs(refs); };
  for (int n : {10, 100, 1000}) {
    structSeq list = structs(n);
    all["send_structs_" + std::to_string(n)] = [=] { sender->send_structs(list); };
  }
  std::string text(1 << 20, 'x');
  all["string_1m"] = [=] { CORBA::String_var r = sender->echo_string(text.c_str()); if (strlen(r) != text.size()) abort(); };
  octetSeq octets;
  octets.length(1 << 20);
  memset(octets.get_buffer(), 7, octets.length());
  all["octets_1m"] = [=] { octetSeq_var r = sender->echo_octets(octets); if (r->length() != octets.length()) abort(); };
  return all;
}

static void time_one(const std::string &name, const std::function<void()> &call)
{
  int calls = number("calls", 100), warm = number("warm", 10), samples = number("samples", 30);
  std::cout << name;
  for (int s = -warm; s < samples; s++) {
    Clock::time_point start = Clock::now();
    for (int k = 0; k < calls; k++) call();
    double ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    if (s >= 0) std::cout << " " << ms;
  }
  std::cout << std::endl;
}

static void load(Sender_ptr sender)
{
  using namespace std::chrono;
  sender->send_void();
  system_clock::time_point at = system_clock::time_point(duration_cast<system_clock::duration>(duration<double>(std::stod(options["at"]))));
  std::this_thread::sleep_until(at);
  system_clock::time_point end = at + duration_cast<system_clock::duration>(duration<double>(std::stod(options["load"])));
  long count = 0;
  while (system_clock::now() < end) { sender->send_void(); count++; }
  std::cout << "load " << count << std::endl;
}

int main(int argc, char **argv)
{
  CORBA::ORB_var orb = CORBA::ORB_init(argc, argv);
  for (int k = 2; k < argc; k++) {
    const char *equals = strchr(argv[k], '=');
    if (equals) options[std::string(argv[k], equals - argv[k])] = equals + 1;
    else works.push_back(argv[k]);
  }
  try {
    CORBA::Object_var object = orb->string_to_object(argv[1]);
    Sender_var sender = Sender::_narrow(object);
    if (options.count("load")) load(sender);
    else {
      auto all = make_works(orb, sender);
      for (auto &name : works) time_one(name, all.at(name));
    }
  } catch (const CORBA::SystemException &e) {
    std::cerr << "client: " << e._name() << " " << (e.NP_minorString() ? e.NP_minorString() : "") << std::endl;
    return 1;
  }
  std::cout.flush();
  _exit(0);
}
