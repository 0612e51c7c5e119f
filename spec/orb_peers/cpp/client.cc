// Checks the rich interface over omniORB: one line "ok NAME", "FAIL NAME<tab>why" or "skip NAME<tab>why" for every feature.
//   client [ORB options] REFERENCE [only=TEXT] [without=wide,callback,more…] [pause=SECONDS] [overlap=1]
#include "samples.h"
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <iostream>
#include <memory>
#include <thread>
#include <vector>

using namespace Shore;
typedef CORBA::ULong Index;

static CORBA::ORB_var orb;
static std::string only, without;
static int failed;

struct Mismatch { std::string why; };

static void expect(bool good, const std::string &why) { if (!good) throw Mismatch{why}; }

static std::string system_text(const CORBA::SystemException &e)
{
  const char *minor = e.NP_minorString();
  return std::string(e._name()) + " minor " + (minor ? minor : std::to_string(e.minor())) + " completed " + std::to_string(e.completed());
}

static bool run(const std::string &name, const std::function<void()> &body, std::string &why)
{
  try { body(); return true; }
  catch (const Mismatch &m) { why = m.why; }
  catch (const Wrong &w) { why = w.why; }
  catch (const CORBA::SystemException &e) { why = system_text(e); }
  catch (const CORBA::Exception &e) { why = e._name(); }
  return false;
}

static void feature(const std::string &name, const std::function<void()> &body)
{
  std::string why;
  if (!only.empty() && name.find(only) == std::string::npos) return;
  if (run(name, body, why)) std::cout << "ok " << name << std::endl;
  else { std::cout << "FAIL " << name << "\t" << why << std::endl; failed++; }
}

static bool left_out(const char *what, const std::string &names)
{
  if (("," + without + ",").find(std::string(",") + what + ",") == std::string::npos) return false;
  std::cout << "skip " << names << "\twithout " << what << std::endl;
  return true;
}

static std::string at(Index i) { return "[" + std::to_string(i) + "] "; }

#define SCALAR(name, type, n) \
  feature("t_" #name, [&] { \
    for (Index i = 0; i < n; i++) { \
      type r = rich->t_##name(i, sample::name##_(i)); \
      expect(r == sample::name##_(i), at(i) + "got " + std::to_string(r)); \
    } });
#define STRING(name, type, n) \
  feature("t_" #name, [&] { \
    for (Index i = 0; i < n; i++) { \
      CORBA::String_var r = rich->t_##name(i, sample::name##_(i)); \
      expect(strcmp(r, sample::name##_(i)) == 0, at(i) + "got " + hex(r.in())); \
    } });
#define WIDE(name, type, n) \
  feature("t_" #name, [&] { \
    for (Index i = 0; i < n; i++) { \
      CORBA::WString_var r = rich->t_##name(i, sample::name##_(i)); \
      expect(same_wide(r.in(), sample::name##_(i)), at(i) + "another wide string"); \
    } });
#define FIXED(name, type, n) \
  feature("t_" #name, [&] { \
    for (Index i = 0; i < n; i++) { \
      type v; \
      sample::name##_(i, v); \
      type r = rich->t_##name(i, v); \
      expect(bytes(r) == bytes(v), at(i) + "got " + hex(bytes(r)) + ", want " + hex(bytes(v))); \
    } });
#define VARIABLE(name, type, n) \
  feature("t_" #name, [&] { \
    for (Index i = 0; i < n; i++) { \
      type v; \
      sample::name##_(i, v); \
      std::unique_ptr<type> r(rich->t_##name(i, v)); \
      expect(bytes(*r) == bytes(v), at(i) + "got " + hex(bytes(*r)) + ", want " + hex(bytes(v))); \
    } });
#define ARRAY(name, type, n) \
  feature("t_" #name, [&] { \
    for (Index i = 0; i < n; i++) { \
      type##_var v = type##_alloc(); \
      sample::name##_(i, v.inout()); \
      type##_var r = rich->t_##name(i, v); \
      expect(sample::same_##name(r.in(), v.in()), at(i) + "another array"); \
    } });

static void samples(Rich_ptr rich)
{
  SHORE_SCALARS(SCALAR)
  SHORE_STRINGS(STRING)
  SHORE_FIXED(FIXED)
  SHORE_ARRAYS(ARRAY)
  SHORE_VARIABLE(VARIABLE)
  feature("char beyond ASCII", [&] {                        // or that UTF-8 has no single octet for it
    try { expect(rich->t_char(2, '\xe1') == 0xe1, "another char"); }
    catch (const CORBA::DATA_CONVERSION &) {}
  });
#define ONE(name, type, i) { type v; sample::name##_(i, v); expect(bytes(rich->t_##name(i, v)) == bytes(v), #name " " + at(i)); }
#define ONE_VARIABLE(name, type, i) \
  { type v; sample::name##_(i, v); std::unique_ptr<type> r(rich->t_##name(i, v)); expect(bytes(*r) == bytes(v), #name " " + at(i)); }
  feature("discriminators without a label", [&] {
    ONE(byushort, ByUshort, 2)
    ONE_VARIABLE(bychar, ByChar, 3)
    ONE_VARIABLE(byshort, ByShort, 3)
    ONE_VARIABLE(bylong, ByLong, 2)
    ONE_VARIABLE(byulong, ByUlong, 1)
  });
  feature("fixed with leading zeros", [&] {
    ONE(money, Money, 3)
    ONE(money, Money, 4)
    ONE(digits, Digits, 2)
    ONE(part, Part, 1)
    ONE(part, Part, 2)
  });
  for (Index i = 0; i < sample::any_count; i++)
    feature(std::string("any: ") + sample::any_names[i], [&] {
      CORBA::Any v;
      sample::any_(i, v);
      CORBA::Any_var r = rich->t_any(i, v);
      expect(same_any(r.in(), v), "got " + hex(bytes(r.in())) + ", want " + hex(bytes(v)));
    });
}

static void wide_samples(Rich_ptr rich)
{
  if (left_out("wide", "wide")) return;
  SCALAR(wchar, CORBA::WChar, 4)
  SHORE_WIDE_STRINGS(WIDE)
  SHORE_WIDE(VARIABLE)
  for (Index i = 0; i < sample::wide_count; i++)
    feature(std::string("any: ") + sample::wide_names[i], [&] {
      CORBA::Any v;
      sample::wideany_(i, v);
      CORBA::Any_var r = rich->t_wideany(i, v);
      expect(same_any(r.in(), v), "got " + hex(bytes(r.in())) + ", want " + hex(bytes(v)));
    });
}

static void more_samples(Rich_ptr whole)
{
  CORBA::Object_var object = whole->more();
  if (CORBA::is_nil(object)) { std::cout << "skip more\tthe server has none" << std::endl; return; }
  More_var rich = More::_narrow(object);
  MORE_FIXED(FIXED)
  MORE_VARIABLE(VARIABLE)
  SCALAR(longdouble, CORBA::LongDouble, 2)
  feature("t_typecode", [&] {
    for (Index i = 0; i < sample::typecode_count; i++) {
      CORBA::TypeCode_var r = rich->t_typecode(i, sample::typecode_(i));
      expect(r->equal(sample::typecode_(i)), at(i) + "another TypeCode");
    }
  });
}

static void modes(Rich_ptr rich)
{
  feature("inout and out: long", [&] {
    CORBA::Long b = 2, r = 0, v = rich->swap_long(1, b, r);
    expect(v == 1 && b == 1 && r == 2, "got " + std::to_string(v) + " " + std::to_string(b) + " " + std::to_string(r));
  });
  feature("inout and out: boolean", [&] {
    CORBA::Boolean b = false, r = true, v = rich->swap_boolean(true, b, r);
    expect(v && b && !r, "another boolean");
  });
  feature("inout and out: string", [&] {
    CORBA::String_var b = CORBA::string_dup("two"), r;
    CORBA::String_var v = rich->swap_string("one", b.inout(), r.out());
    expect(!strcmp(v, "one") && !strcmp(b, "one") && !strcmp(r, "two"), "another string");
  });
#define SWAPF(name, type, i, k) \
  feature("inout and out: " #name, [&] { \
    type a, b, r, old; \
    sample::name##_(i, a); \
    sample::name##_(k, b); \
    old = b; \
    type v = rich->swap_##name(a, b, r); \
    expect(bytes(v) == bytes(a) && bytes(b) == bytes(a) && bytes(r) == bytes(old), "another " #name); \
  });
  SWAPF(money, Money, 0, 1)
  SWAPF(point, Point, 0, 1)
#define SWAPV(name, type, i, k) \
  feature("inout and out: " #name, [&] { \
    type a, b; \
    type##_var r; \
    sample::name##_(i, a); \
    sample::name##_(k, b); \
    type old = b; \
    type##_var v = rich->swap_##name(a, b, r.out()); \
    expect(bytes(v.in()) == bytes(a) && bytes(b) == bytes(a) && bytes(r.in()) == bytes(old), "another " #name); \
  });
  SWAPV(octets, Octets, 1, 0)
  SWAPV(mixed, Mixed, 1, 0)
  SWAPV(bytide, ByTide, 2, 3)
  feature("inout and out: any", [&] {
    CORBA::Any a, b;
    CORBA::Any_var r;
    sample::any_(18, a);
    sample::any_(12, b);
    CORBA::Any old = b;
    CORBA::Any_var v = rich->swap_any(a, b, r.out());
    expect(same_any(v.in(), a) && same_any(b, a) && same_any(r.in(), old), "another any");
  });
  feature("inout and out: cube", [&] {
    Cube a, b, r;
    sample::cube_(0, a);
    sample::cube_(1, b);
    Cube_var v = rich->swap_cube(a, b, r);
    Cube_var old = Cube_alloc();
    sample::cube_(1, old.inout());
    expect(sample::same_cube(v.in(), a) && sample::same_cube(b, a) && sample::same_cube(r, old.in()), "another cube");
  });
  feature("inout and out: names", [&] {
    Names_var a = Names_alloc(), b = Names_alloc(), r;
    sample::names_(0, a.inout());
    Names_var v = rich->swap_names(a.in(), b.inout(), r.out());
    expect(sample::same_names(v.in(), a.in()) && sample::same_names(b.in(), a.in()) && !*r[1][1], "another array of strings");
  });
  feature("inout and out: reference", [&] {
    Base_var a = rich->myself(), b, r;
    Base_var v = rich->swap_base(a, b.inout(), r.out());
    expect(!CORBA::is_nil(v) && !CORBA::is_nil(b) && CORBA::is_nil(r) && v->grow(1) == 2 && b->grow(2) == 3, "another reference");
  });
}

static void failures(Rich_ptr rich)
{
  feature("exception without members", [&] {
    try { rich->raise_nothing(); } catch (const Nothing &) { return; }
    expect(false, "nothing was raised");
  });
  feature("exception with members", [&] {
    Strings list;
    sample::strings_(1, list);
    try { rich->raise_full(-7); }
    catch (const Full &f) {
      expect(f.t == HIGH && f.n == -7 && !strcmp(f.s, "full") && f.p.x == -7 && bytes(f.list) == bytes(list), "another content");
      return;
    }
    expect(false, "nothing was raised");
  });
  feature("system exception", [&] {
    try { rich->refuse(); }
    catch (const CORBA::NO_PERMISSION &e) {
      expect(e.minor() == 42 && e.completed() == CORBA::COMPLETED_YES, system_text(e));
      return;
    }
    expect(false, "nothing was raised");
  });
  feature("unknown operation", [&] {
    CORBA::Request_var request = rich->_request("no_such_thing");
    request->invoke();
    CORBA::Exception *e = request->env()->exception();
    expect(e && CORBA::BAD_OPERATION::_downcast(e), e ? e->_name() : "nothing was raised");
  });
}

class Base_i : public virtual POA_Shore::Base {
public:
  CORBA::Long grow(CORBA::Long n) { return n * 10; }
};

static void references(Rich_ptr rich)
{
  feature("reference to itself", [&] {
    Base_var me = rich->myself();
    expect(rich->is_myself(me), "is_myself says no");
    expect(me->_is_equivalent(rich), "not equivalent");
    expect(me->grow(41) == 42, "another answer");
  });
  feature("nil reference", [&] { Base_var nil = rich->none(); expect(CORBA::is_nil(nil), "not nil"); });
  feature("reference passed on", [&] {
    CORBA::Object_var o = rich->keep(rich), nil = rich->keep(CORBA::Object::_nil());
    expect(o->_is_equivalent(rich) && CORBA::is_nil(nil), "another reference");
    CORBA::String_var sent = orb->object_to_string(rich), came = orb->object_to_string(o);
    expect(!strcmp(sent, came), "other bytes: " + std::string(came));
  });
  feature("sequence of references", [&] {
    Objects list;
    list.length(3);
    list[0] = CORBA::Object::_duplicate(rich);
    list[2] = CORBA::Object::_duplicate(rich);
    Objects_var r = rich->keep_all(list);
    expect(r->length() == 3 && CORBA::is_nil(r[1]) && r[2]->_is_equivalent(rich), "another list");
  });
  feature("reference in an any", [&] {
    CORBA::Any a, b;
    CORBA::Any_var r;
    a <<= rich;
    CORBA::Any_var v = rich->swap_any(a, b, r.out());
    Rich_ptr same;
    expect((v.in() >>= same) && same->grow(1) == 2, "no reference came back");
    const char *text;                            // mare's server answers this one with a reference that it gives no type
    a <<= "yourself";
    v = rich->swap_any(a, b, r.out());
    if (!(v.in() >>= text)) expect((v.in() >>= same) && same->grow(1) == 2, "a reference without a type is no Rich");
  });
  feature("_is_a", [&] {
    expect(rich->_is_a("IDL:mare.test/Shore/Rich:1.0") && rich->_is_a("IDL:mare.test/Shore/Right:1.0") &&
             rich->_is_a("IDL:mare.test/Shore/Base:1.0") && rich->_is_a("IDL:omg.org/CORBA/Object:1.0"), "no for a base");
    expect(!rich->_is_a("IDL:mare.test/Shore/More:1.0"), "yes for another interface");
  });
  feature("_non_existent", [&] { expect(!rich->_non_existent(), "says it does not exist"); });
  feature("narrow to a base", [&] {
    CORBA::Object_var o = rich->keep(rich);
    Right_var right = Right::_narrow(o);
    More_var more = More::_narrow(o);
    expect(!CORBA::is_nil(right) && CORBA::is_nil(more), "another answer");
  });
  if (!left_out("callback", "callback"))
    feature("callback", [&] {
      Base_i *servant = new Base_i;
      Base_var mine = servant->_this();
      expect(rich->call_back(mine, 5) == 50, "another answer");
    });
  Rich_var other = rich->forwarder();
  if (CORBA::is_nil(other)) { std::cout << "skip forward\tthe server has no forwarder" << std::endl; return; }
  feature("forward", [&] {
    for (int k = 0; k < 3; k++) expect(other->grow(k) == k + 1, "another answer");
    Octets v;
    sample::octets_(2, v);
    Octets_var r = other->t_octets(2, v);
    expect(r->length() == v.length(), "another length");
  });
}

static void names(Rich_ptr rich)
{
  feature("void", [&] { rich->ping(); });
  feature("inherited operations", [&] {
    CORBA::String_var s = rich->leftward("left");
    expect(rich->grow(1) == 2 && !strcmp(s, "<left"), "another answer");
  });
  feature("attributes", [&] {
    Point p = {3, 4.5};
    rich->name("ol\xe1");
    rich->place(p);
    CORBA::String_var s = rich->name();
    expect(rich->count() == 42 && !strcmp(s, "ol\xe1") && rich->place().x == 3 && rich->place().y == 4.5, "another value");
  });
  feature("Lua keywords as names", [&] {
    expect(rich->end(1) == 1 && rich->function(2) == 2 && rich->repeat(3) == 3 && rich->nil(4) == 4 && rich->_cxx_and(5) == 5 &&
             rich->local(6) == 6, "another answer");
  });
  feature("oneway", [&] {
    rich->poked();
    for (int k = 1; k <= 10; k++) rich->poke(k);
    long sum = 0;
    for (int k = 0; k < 200 && sum < 55; k++) {              // other threads of the server may still be at it
      sum += rich->poked();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    expect(sum == 55, "sum " + std::to_string(sum));
  });
  feature("8 threads at once", [&] {
    std::vector<std::thread> threads;
    std::atomic<int> bad{0};
    for (int t = 0; t < 8; t++)
      threads.emplace_back([&, t] {
        try { for (int k = 0; k < 50; k++) if (rich->grow(1000 * t + k) != 1000 * t + k + 1) bad++; }
        catch (const CORBA::Exception &) { bad++; }
      });
    for (auto &t : threads) t.join();
    expect(bad == 0, std::to_string(bad) + " wrong");
  });
}

// A quick call is answered while a slow one is under way.
static void overlap(Rich_ptr rich)
{
  feature("replies out of order", [&] {
    std::atomic<bool> slow_done{false};
    rich->ping();
    std::thread slow([&] { try { rich->slow(1500); } catch (const CORBA::Exception &) {} slow_done = true; });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    for (int k = 0; k < 5; k++) expect(rich->grow(k) == k + 1, "another answer");
    bool before = !slow_done;
    slow.join();
    expect(before, "the quick call waited for the slow one");
  });
}

static void pauses(Rich_ptr rich, double seconds)
{
  feature("calls after idle closing", [&] {
    for (int k = 0; k < 3; k++) {
      if (k) std::this_thread::sleep_for(std::chrono::milliseconds((long)(1000 * seconds)));
      expect(rich->grow(k) == k + 1, "another answer");
    }
  });
}

static std::string option(int argc, char **argv, const char *name)
{
  size_t length = strlen(name);
  for (int k = 2; k < argc; k++)
    if (!strncmp(argv[k], name, length) && argv[k][length] == '=') return argv[k] + length + 1;
  return "";
}

int main(int argc, char **argv)
{
  try {
    orb = CORBA::ORB_init(argc, argv);
    if (argc < 2) { std::cerr << "usage: client REFERENCE [only=] [without=] [pause=] [overlap=]" << std::endl; return 2; }
    only = option(argc, argv, "only");
    without = option(argc, argv, "without");
    CORBA::Object_var object = orb->resolve_initial_references("RootPOA");
    PortableServer::POA_var root = PortableServer::POA::_narrow(object);
    PortableServer::POAManager_var manager = root->the_POAManager();
    manager->activate();
    object = orb->string_to_object(argv[1]);
    Rich_var rich = Rich::_narrow(object);
    if (CORBA::is_nil(rich)) { std::cout << "FAIL narrow\tthe reference is no Rich" << std::endl; return 1; }
    std::string seconds = option(argc, argv, "pause");
    if (!seconds.empty()) pauses(rich, std::stod(seconds));
    else if (option(argc, argv, "overlap") != "") overlap(rich);
    else {
      names(rich);
      modes(rich);
      failures(rich);
      references(rich);
      samples(rich);
      wide_samples(rich);
      if (!left_out("more", "more")) more_samples(rich);
    }
    orb->destroy();
    return failed ? 1 : 0;
  } catch (const CORBA::SystemException &e) {
    std::cout << "FAIL start\t" << system_text(e) << std::endl;
    return 1;
  }
}
