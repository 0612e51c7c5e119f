// The values that server and client of values.idl make, and their factories.
#ifndef ANIMALS_H
#define ANIMALS_H
#include <omniORB4/CORBA.h>
#include <string>
#include "values.hh"

struct DogImpl : public virtual OBV_Tide::Dog, public virtual CORBA::DefaultValueRefCountBase {
  DogImpl() {}
  DogImpl(const char *n, CORBA::Short l, const char *b, Tide::Node *p) { name(n); legs(l); bark(b); bone(p); }
  int feet() { return legs(); }
};
struct PuppyImpl : public virtual OBV_Tide::Puppy, public virtual CORBA::DefaultValueRefCountBase {
  PuppyImpl() {}
  PuppyImpl(const char *n, CORBA::Short l, const char *b, Tide::Node *p, CORBA::Octet w) { name(n); legs(l); bark(b); bone(p); weeks(w); }
};
struct CatImpl : public virtual OBV_Tide::Cat, public virtual CORBA::DefaultValueRefCountBase {
  CatImpl() {}
  CatImpl(const char *n, Tide::Node *p) { name(n); legs(4); bark("purr"); bone(p); tail(p); meow("meow"); bone2(p); }
};
struct BirdImpl : public virtual OBV_Tide::Bird, public virtual CORBA::DefaultValueRefCountBase {
  BirdImpl() {}
  BirdImpl(const char *n, double w) { name(n); legs(2); wings(w); }
};
struct NodeImpl : public virtual OBV_Tide::Node, public virtual CORBA::DefaultValueRefCountBase {
  NodeImpl() {}
  NodeImpl(CORBA::Long i, const char *s, Tide::Node *p) { n(i); text(s); next(p); weight(i + 0.5); }
};
struct StoneImpl : public virtual OBV_Tide::Stone, public virtual CORBA::DefaultValueRefCountBase {
  StoneImpl() {}
  StoneImpl(double c) { carats(c); }
};
struct PosterImpl : public virtual OBV_Tide::Poster, public virtual CORBA::DefaultValueRefCountBase {
  PosterImpl() {}
  PosterImpl(const char *w) { words(w); }
  char *show() { return CORBA::string_dup(words()); }
};

template <class T> struct Factory : public CORBA::ValueFactoryBase {
  CORBA::ValueBase *create_for_unmarshal() { return new T; }
};
template <class T> void teach(CORBA::ORB_ptr orb, const char *name)
{
  CORBA::ValueFactoryBase_var f = new Factory<T>;
  CORBA::ValueFactoryBase_var before = orb->register_value_factory((std::string("IDL:mare.test/Tide/") + name + ":1.0").c_str(), f);
}
inline void teach_all(CORBA::ORB_ptr orb)
{
  teach<DogImpl>(orb, "Dog");
  teach<PuppyImpl>(orb, "Puppy");
  teach<BirdImpl>(orb, "Bird");
  teach<NodeImpl>(orb, "Node");
  teach<StoneImpl>(orb, "Stone");
  teach<PosterImpl>(orb, "Poster");
}
// two nodes in a circle
inline Tide::Node *circle()
{
  NodeImpl *b = new NodeImpl(2, "two", 0);
  NodeImpl *a = new NodeImpl(1, "one", b);
  CORBA::add_ref(a);
  b->next(a);
  return a;
}
#endif
