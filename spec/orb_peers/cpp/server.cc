// The rich interface served over omniORB. Prints the reference and a corbaloc, serves until its standard input ends.
#include "samples.h"
#include "../serve.h"
#include <cstdio>
#include <cstring>
#include <iostream>
#include <thread>
#include <chrono>
#include <atomic>

using namespace Shore;
typedef CORBA::ULong Index;

static CORBA::ORB_var orb;

[[noreturn]] static void wrong(const char *op, Index i, const std::string &got, const std::string &want)
{
  std::string text = std::string("t_") + op + "[" + std::to_string(i) + "]: the server got " + hex(got) + ", wants " + hex(want);
  std::cerr << text << std::endl;
  throw Wrong(text.c_str());
}

class More_i : public virtual POA_Shore::More {
public:
  CORBA::LongDouble t_longdouble(Index i, CORBA::LongDouble v)
  {
    if (v != sample::longdouble_(i)) wrong("longdouble", i, std::to_string((double)v), "");
    return sample::longdouble_(i);
  }
  CORBA::TypeCode_ptr t_typecode(Index i, CORBA::TypeCode_ptr v)
  {
    if (!v->equal(sample::typecode_(i))) wrong("typecode", i, v->kind() <= 13 ? "" : "another", "");
    return CORBA::TypeCode::_duplicate(sample::typecode_(i));
  }
#define OP(name, type, n) \
  type t_##name(Index i, const type &v) \
  { \
    type r; \
    sample::name##_(i, r); \
    if (bytes(v) != bytes(r)) wrong(#name, i, bytes(v), bytes(r)); \
    return r; \
  }
  MORE_FIXED(OP)
#define OPV(name, type, n) \
  type *t_##name(Index i, const type &v) \
  { \
    type##_var r = new type; \
    sample::name##_(i, r.inout()); \
    if (bytes(v) != bytes(r.in())) wrong(#name, i, bytes(v), bytes(r.in())); \
    return r._retn(); \
  }
  MORE_VARIABLE(OPV)
};

class Base_i : public virtual POA_Shore::Base {
public:
  CORBA::Long grow(CORBA::Long n) { return n + 1; }
};

class Rich_i : public virtual POA_Shore::Rich {
public:
  std::atomic<long> sum{0};
  CORBA::String_var name_ = CORBA::string_dup("nobody");
  Point place_ = {0, 0};
  CORBA::Object_var more_;
  Rich_var forwarder_;

  CORBA::Long grow(CORBA::Long n) { return n + 1; }
  char *leftward(const char *s) { return CORBA::string_dup((std::string("<") + s).c_str()); }
  CORBA::Long count() { return 42; }
  char *name() { return CORBA::string_dup(name_); }
  void name(const char *s) { name_ = s; }
  Point place() { return place_; }
  void place(const Point &p) { place_ = p; }
  void ping() {}

#define OPS(name, type, n) \
  type t_##name(Index i, type v) \
  { \
    if (v != sample::name##_(i)) wrong(#name, i, std::to_string(v), std::to_string(sample::name##_(i))); \
    return sample::name##_(i); \
  }
  SHORE_SCALARS(OPS)
  OPS(wchar, CORBA::WChar, 4)
#define OPT(name, type, n) \
  char *t_##name(Index i, const char *v) \
  { \
    if (strcmp(v, sample::name##_(i)) != 0) wrong(#name, i, v, sample::name##_(i)); \
    return CORBA::string_dup(sample::name##_(i)); \
  }
  SHORE_STRINGS(OPT)
#define OPW(name, type, n) \
  CORBA::WChar *t_##name(Index i, const CORBA::WChar *v) \
  { \
    if (!same_wide(v, sample::name##_(i))) wrong(#name, i, std::string((const char *)v, 4 * wcslen((const wchar_t *)v)), ""); \
    return CORBA::wstring_dup(sample::name##_(i)); \
  }
  SHORE_WIDE_STRINGS(OPW)
  SHORE_FIXED(OP)
  SHORE_VARIABLE(OPV)
  SHORE_WIDE(OPV)
#define OPANY(name) \
  CORBA::Any *t_##name(Index i, const CORBA::Any &v) \
  { \
    CORBA::Any_var r = new CORBA::Any; \
    sample::name##_(i, r.inout()); \
    if (!same_any(v, r.in())) wrong(#name, i, bytes(v), bytes(r.in())); \
    return r._retn(); \
  }
  OPANY(any)
  OPANY(wideany)
#define OPA(name, type, n) \
  type##_slice *t_##name(Index i, const type v) \
  { \
    type##_var r = type##_alloc(); \
    sample::name##_(i, r.inout()); \
    if (!sample::same_##name(v, r.in())) wrong(#name, i, "", ""); \
    return r._retn(); \
  }
  SHORE_ARRAYS(OPA)

#define SWAP(name, type) type swap_##name(type a, type &b, type &r) { r = b; b = a; return a; }
  SWAP(long, CORBA::Long)
  SWAP(boolean, CORBA::Boolean)
#define SWAPF(name, type) type swap_##name(const type &a, type &b, type &r) { r = b; b = a; return a; }
  SWAPF(money, Money)
  SWAPF(point, Point)
#define SWAPV(name, type) type *swap_##name(const type &a, type &b, type##_out r) { r = new type(b); b = a; return new type(a); }
  SWAPV(octets, Octets)
  SWAPV(mixed, Mixed)
  SWAPV(bytide, ByTide)
  CORBA::Any *swap_any(const CORBA::Any &a, CORBA::Any &b, CORBA::Any_OUT_arg r) { r = new CORBA::Any(b); b = a; return new CORBA::Any(a); }
  char *swap_string(const char *a, char *&b, CORBA::String_out r) { r = b; b = CORBA::string_dup(a); return CORBA::string_dup(a); }
  Cube_slice *swap_cube(const Cube a, Cube b, Cube r) { Cube_copy(r, b); Cube_copy(b, a); return Cube_dup(a); }
  Names_slice *swap_names(const Names a, Names b, Names_out r) { r = Names_dup(b); Names_copy(b, a); return Names_dup(a); }
  Base_ptr swap_base(Base_ptr a, Base_ptr &b, Base_out r) { r = b; b = Shore::Base::_duplicate(a); return Shore::Base::_duplicate(a); }

  void raise_nothing() { throw Nothing(); }
  void raise_full(CORBA::Long n)
  {
    Full f;
    f.t = HIGH; f.n = n; f.s = "full";
    sample::point_(0, f.p);
    sample::strings_(1, f.list);
    throw f;
  }
  void refuse() { throw CORBA::NO_PERMISSION(42, CORBA::COMPLETED_YES); }
  void poke(CORBA::Long n) { sum += n; }
  CORBA::Long poked() { return sum.exchange(0); }
  void slow(Index ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

  Base_ptr myself() { return _this(); }
  Base_ptr none() { return Shore::Base::_nil(); }
  CORBA::Object_ptr keep(CORBA::Object_ptr o) { return CORBA::Object::_duplicate(o); }
  Objects *keep_all(const Objects &list) { return new Objects(list); }
  CORBA::Boolean is_myself(CORBA::Object_ptr o) { Rich_var me = _this(); return o->_is_equivalent(me); }
  CORBA::Long call_back(Base_ptr b, CORBA::Long n) { return b->grow(n); }
  CORBA::Object_ptr more() { return CORBA::Object::_duplicate(more_); }
  Rich_ptr forwarder() { return Shore::Rich::_duplicate(forwarder_); }
  CORBA::Long end(CORBA::Long n) { return n; }
  CORBA::Long function(CORBA::Long n) { return n; }
  CORBA::Long repeat(CORBA::Long n) { return n; }
  CORBA::Long nil(CORBA::Long n) { return n; }
  CORBA::Long _cxx_and(CORBA::Long n) { return n; }
  CORBA::Long local(CORBA::Long n) { return n; }
};

// Sends every request to another object.
class Forward : public virtual POA_PortableServer::ServantLocator {
public:
  CORBA::Object_var target;
  typedef PortableServer::ServantLocator::Cookie Cookie;
  PortableServer::Servant preinvoke(const PortableServer::ObjectId &, PortableServer::POA_ptr, const char *, Cookie &)
  {
    throw PortableServer::ForwardRequest(target);
  }
  void postinvoke(const PortableServer::ObjectId &, PortableServer::POA_ptr, const char *, Cookie, PortableServer::Servant) {}
};

static Rich_ptr forwarder(PortableServer::POA_ptr root, CORBA::Object_ptr target)
{
  CORBA::PolicyList policies;
  policies.length(3);
  policies[0] = root->create_servant_retention_policy(PortableServer::NON_RETAIN);
  policies[1] = root->create_request_processing_policy(PortableServer::USE_SERVANT_MANAGER);
  policies[2] = root->create_id_assignment_policy(PortableServer::USER_ID);
  PortableServer::POAManager_var manager = root->the_POAManager();
  PortableServer::POA_var poa = root->create_POA("forward", manager, policies);
  Forward *locator = new Forward;
  locator->target = CORBA::Object::_duplicate(target);
  PortableServer::ServantLocator_var reference = locator->_this();
  poa->set_servant_manager(reference);
  PortableServer::ObjectId_var id = PortableServer::string_to_ObjectId("forward");
  CORBA::Object_var object = poa->create_reference_with_id(id, "IDL:mare.test/Shore/Rich:1.0");
  return Rich::_unchecked_narrow(object);
}

int main(int argc, char **argv)
{
  return serve(argc, argv, [](CORBA::ORB_ptr given, PortableServer::POA_ptr root) {
    orb = CORBA::ORB::_duplicate(given);
    CORBA::Object_var object = orb->resolve_initial_references("omniINSPOA");
    PortableServer::POA_var named = PortableServer::POA::_narrow(object);
    Rich_i *rich = new Rich_i;
    PortableServer::ObjectId_var id = PortableServer::string_to_ObjectId("rich");
    named->activate_object_with_id(id, rich);
    object = named->id_to_reference(id);
    More_i *more = new More_i;
    rich->more_ = more->_this();
    rich->forwarder_ = forwarder(root, object);
    PortableServer::POAManager_var manager = named->the_POAManager();
    manager->activate();
    return object._retn();
  });
}
